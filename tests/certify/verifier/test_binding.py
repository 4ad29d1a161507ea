"""A certificate is of one data set, whole and in order, and of one network: a change signed again is refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from certify.certificates import Handed
from modelkeep import Data
from modelkeep.certify import binding as own
from modelkeep.certify.verifier import Given, Report, binding
from modelkeep.core.signing import Signer, canonical
from modelkeep.zoo import datasets

Content = dict[str, Any]


def of(content: Content, inputs: list[Content]) -> None:
    """These inputs and no others, with a summary that follows from them."""
    content["inputs"] = inputs
    good = [e for e in inputs if e["radius"] is None or e["radius"] > content["radius"]]
    content["summary"] = {
        "examples": len(inputs),
        "certified": len(good),
        "labelled": len(inputs),
        "verified": sum(e["label"] == e["predicted"] for e in good),
    }


def good_ones(content: Content) -> list[Content]:
    return [e for e in content["inputs"] if e["radius"] > content["radius"]]


def drop_rejected(content: Content) -> None:
    of(content, good_ones(content))


def repeat_good(content: Content) -> None:
    of(content, content["inputs"] + 50 * good_ones(content)[:1])


def label_by_prediction(content: Content) -> None:
    of(content, [e | {"label": e["predicted"]} for e in content["inputs"]])


def reverse_classes(content: Content) -> None:
    content["model"]["classes"].reverse()


def tell_preprocessing(content: Content) -> None:
    content["model"] |= {"mean": [0.5], "std": [2.0]}


def add_preprocessing(content: Content) -> None:
    """Mean and deviation together with the operation that they need, and that changes nothing."""
    content["model"] |= {"mean": [0.0], "std": [1.0]}
    scale = {"name": "preprocessing", "kind": "scale", "inputs": ["input"], "shape": [1, 8, 8], "tensors": {}}
    scale["settings"] = {"factor": [1.0], "offset": [0.0]}
    content["operations"].insert(1, scale)
    content["operations"][2]["inputs"] = ["preprocessing"]


def another_order(content: Content) -> None:
    of(content, content["inputs"][::-1])


def swap_labels(content: Content) -> None:
    first, second = (next(e for e in content["inputs"] if e["label"] == label) for label in (3, 5))
    first["label"], second["label"] = 5, 3
    of(content, content["inputs"])


def repeat_in_place(content: Content) -> None:
    """As many inputs as the data has: a good one in the place of a rejected one."""
    good = good_ones(content)[0]
    of(content, [e if e in good_ones(content) else copy.deepcopy(good) for e in content["inputs"]])


def foreign_input(content: Content) -> None:
    of(content, [*content["inputs"][:-1], content["inputs"][-1] | {"sha256": "0" * 64}])


def no_inputs(content: Content) -> None:
    of(content, [])


def without_labels_for_wrong_ones(content: Content) -> None:
    of(content, [e | {"label": e["label"] if e["label"] == e["predicted"] else None} for e in content["inputs"]])
    content["summary"]["labelled"] = sum(e["label"] is not None for e in content["inputs"])


LIES: dict[str, tuple[Callable[[Content], None], str]] = {
    "rejected inputs dropped": (drop_rejected, "data"),
    "a good input repeated 50 times": (repeat_good, "data"),
    "labels replaced by predictions": (label_by_prediction, "labels"),
    "class names reversed": (reverse_classes, "model"),
    "mean and deviation told": (tell_preprocessing, "model"),
    "mean and deviation computed with": (add_preprocessing, "model"),
    "another order": (another_order, "data"),
    "two labels swapped": (swap_labels, "labels"),
    "a good input in the place of a rejected one": (repeat_in_place, "data"),
    "an input that is not in the data": (foreign_input, "data"),
    "no inputs": (no_inputs, "data"),
    "labels left out where they are wrong": (without_labels_for_wrong_ones, "labels"),
}


def failing(report: Report) -> dict[str, str]:
    return {check.name: check.says for check in report.checks if check.status == "fails"}


@pytest.mark.parametrize("what", LIES)
def test_a_lie_that_is_signed_again_is_refused(handed: Handed, tmp_path: Path, what: str) -> None:
    change, where = LIES[what]
    report = handed.verify(handed.changed(tmp_path / "c.json", change, rebind=True))
    assert (report.word, report.exit_code) == ("refused", 1)
    assert where in failing(report)
    assert "signature" not in failing(report)


@pytest.mark.parametrize("what", LIES)
def test_without_the_data_it_is_consistent_at_most(handed: Handed, tmp_path: Path, what: str) -> None:
    report = handed.verify(handed.changed(tmp_path / "c.json", LIES[what][0], rebind=True), data=None, weights=None)
    assert report.word != "verified"
    assert report.exit_code in (1, 3)


def test_the_hashes_bind_also_where_no_data_is_given(handed: Handed, tmp_path: Path) -> None:
    for change in (drop_rejected, label_by_prediction, reverse_classes, tell_preprocessing):
        report = handed.verify(handed.changed(tmp_path / "c.json", change), data=None, weights=None)
        assert {"binding", "model"} & set(failing(report)), change


def test_nothing_but_all_of_it_is_verified(handed: Handed) -> None:
    """Each thing that is left out leaves it consistent: signer, weights, data, labels; and the signature alone."""
    assert handed.verify(handed.certificate).exit_code == 0
    given = handed.data
    for missing in (
        {"signer": None},
        {"weights": None},
        {"data": None},
        {"data": Given(given.x)},
        {"signer": None, "weights": None, "data": None},
    ):
        report = handed.verify(handed.certificate, **missing)
        assert (report.word, report.exit_code) == ("consistent", 3), missing


def test_a_signer_that_is_not_the_named_one_is_refused(handed: Handed, tmp_path: Path) -> None:
    """Anybody can sign an honest certificate, or a lie."""
    other = Signer.at(tmp_path / "other.pem")

    def sign_over(content: Content) -> None:
        content["public_key"] = other.public_key

    path = handed.changed(tmp_path / "c.json", sign_over, sign=False)
    content = json.loads(path.read_bytes())
    del content["signature"]
    path.write_text(json.dumps(content | {"signature": other.sign(canonical(content))}))
    assert "signer" in failing(handed.verify(path))
    assert handed.verify(path, signer=None).word == "consistent"


def test_an_older_version_does_not_hide_a_lie(handed: Handed, tmp_path: Path) -> None:
    """Version 1 says of no data set that it is of it, so it is never more than consistent."""

    def older(change: Callable[[Content], None]) -> Callable[[Content], None]:
        def make(content: Content) -> None:
            change(content)
            content["version"] = 1
            del content["data"], content["binds"]

        return make

    honest = handed.verify(handed.changed(tmp_path / "c.json", older(lambda content: None)))
    assert honest.word == "consistent"
    assert "Version 1 binds no data set" in next(c.says for c in honest.checks if c.name == "binding")
    words = {}
    for what, (change, _) in LIES.items():
        words[what] = handed.verify(handed.changed(tmp_path / "c.json", older(change))).word
    assert "verified" not in words.values()
    assert words["a good input repeated 50 times"] == words["labels replaced by predictions"] == "refused"
    assert words["class names reversed"] == words["mean and deviation computed with"] == "refused"


# Drawn rows.


def test_a_draw_can_be_repeated_and_not_chosen(handed: Handed, tmp_path: Path) -> None:
    """A sender who says that the seed drew the inputs that suit is refused, whether he keeps the set's hash or not."""
    labels = [int(y) for y in handed.data.y]  # type: ignore[union-attr]
    rows = handed.data.rows()
    whole = binding.data_hash(rows, labels, handed.data.classes or [])
    honest = binding.draw_rows(whole, 30, 7, 12)
    assert honest == sorted(set(honest))
    assert honest != binding.draw_rows(whole, 30, 8, 12)

    def drawn(chosen: list[int], data: str) -> Callable[[Content], None]:
        def change(content: Content) -> None:
            of(content, [content["inputs"][row] for row in chosen])
            content["data"] |= {"rows": 30, "chosen": chosen, "seed": 7}
            content["binds"]["data"] = data

        return change

    assert handed.verify(handed.changed(tmp_path / "c.json", drawn(honest, whole))).word == "verified"
    content = json.loads(handed.certificate.read_bytes())
    suits = [row for row, e in enumerate(content["inputs"]) if e["radius"] > content["radius"]]
    assert "binding" in failing(handed.verify(handed.changed(tmp_path / "c.json", drawn(suits, whole))))
    forged = next(h for h in map(str, range(10**6)) if binding.draw_rows(h, 30, 7, 2) == suits[:2])
    report = handed.verify(handed.changed(tmp_path / "c.json", drawn(suits[:2], forged)))
    assert "data" in failing(report)
    some = Given(handed.data.x[honest], handed.data.y[honest], handed.data.classes)  # type: ignore[index]
    assert handed.verify(handed.changed(tmp_path / "c.json", drawn(honest, whole)), data=some).word == "consistent"


@pytest.mark.parametrize("examples", [None, 5, 100])
def test_sender_and_receiver_hash_and_draw_alike(examples: int | None) -> None:
    """Two programs that share no code."""
    data: Data = datasets.load("digits", "test").first(20)
    described, hashed = own.describe_data(data, examples=examples, seed=3, labelled=True)
    given = Given(data.x.numpy(), data.y.numpy(), data.classes)
    assert own.hash_rows(data.x) == given.rows()
    assert hashed == binding.data_hash(given.rows(), data.y.tolist(), data.classes)
    assert described.rows == 20
    assert described.chosen == (None if examples != 5 else binding.draw_rows(hashed, 20, 3, 5))


def test_other_numbers_of_the_same_shape_have_another_hash() -> None:
    x = np.zeros((1, 4), np.float32)
    assert Given(x).rows() != Given(x + np.float32(1e-45)).rows()
