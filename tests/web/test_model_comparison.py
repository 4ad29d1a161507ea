"""Two models on the same examples: counted by hand, tested as the audits are, shown by the view."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from modelkeep import Data, Model
from modelkeep.audit.comparison import mcnemar
from modelkeep.audit.sources import Sources
from modelkeep.core.errors import InputError
from modelkeep.web.model_comparison import compare_models
from modelkeep.web.workspace import Opened, Workspace
from web.conftest import Browser
from web.test_runs import keep_audit


def test_the_counts_are_those_of_a_loop(trained_cnn: Model, trained_dense: Model, digits: tuple[Data, Data]) -> None:
    data = digits[1]
    first, second = (Opened(model, data, Sources(name, "digits")) for name, model in both(trained_cnn, trained_dense))
    found = compare_models(first, second)
    right = [
        [int(model.predict(data.x[i : i + 1])) == int(data.y[i]) for i in range(len(data))]
        for _, model in both(trained_cnn, trained_dense)
    ]
    pairs = list(zip(*right, strict=True))
    assert (found.both_right, found.both_wrong) == (pairs.count((True, True)), pairs.count((False, False)))
    assert (found.test.lost, found.test.won) == (pairs.count((True, False)), pairs.count((False, True)))
    marks = ["".join("01"[each] for each in column) for column in right]
    assert found.test == mcnemar(*marks)
    assert [each.index for each in found.differing] == [i for i, (a, b) in enumerate(pairs) if a != b]
    assert found.first.n == found.second.n == len(data)


def both(cnn: Model, dense: Model) -> tuple[tuple[str, Model], tuple[str, Model]]:
    return ("cnn", cnn), ("dense", dense)


def test_the_same_model_is_not_better_than_itself(trained_cnn: Model, digits: tuple[Data, Data]) -> None:
    opened = Opened(trained_cnn, digits[1], Sources("cnn", "digits"))
    found = compare_models(opened, opened)
    assert found.test.p_value == 1
    assert found.differing == ()
    assert "no proof that they are alike" in found.verdict


def test_other_examples_or_classes_are_refused(trained_cnn: Model, digits: tuple[Data, Data], small_cnn: Model) -> None:
    data = digits[1]
    opened = Opened(trained_cnn, data, Sources("cnn", "digits"))
    with pytest.raises(InputError, match="must be open with the same examples"):
        compare_models(opened, Opened(trained_cnn, data.first(40), Sources("cnn", "others")))
    few = Data(data.x, torch.zeros_like(data.y), small_cnn.classes)
    with pytest.raises(InputError, match="have other classes"):
        compare_models(
            Opened(trained_cnn, Data(data.x, few.y, data.classes), Sources("cnn", "zeros")),
            Opened(small_cnn, few, Sources("few", "zeros")),
        )


def test_the_view_opens_the_other_and_compares(browser: Browser) -> None:
    assert browser.post("/api/compare/open", {"model": ""}).status_code == 400
    assert "is not open" in browser.get("/api/compare", other="digits-certified").json()["error"]
    query = {"model": "digits-cnn", "data": "digits"}
    assert browser.post("/api/compare/open", {"model": "digits-certified"}, **query).status_code == 200
    told = browser.get("/api/compare", other="digits-certified", **query).json()
    counts = told["counts"]
    assert sum(counts.values()) == told["n"] == 359
    assert len(told["differing"]) == counts["first"] + counts["second"]
    assert told["names"] == ["digits-cnn", "digits-certified"]
    browser.post("/api/open", {**query, "train": "digits"})  # the last opened, as the other tests expect it


def test_two_audits_are_compared_finding_by_finding(
    browser: Browser, workspace: Workspace, trained_dense: Model, digits: tuple[Data, Data]
) -> None:
    before: Path = workspace.folder / "before"
    keep_audit(trained_dense, digits[1].first(60), before, ("accuracy",))
    keep_audit(trained_dense, digits[1].first(60), workspace.folder / "after", ("accuracy",))
    page = browser.get("/compare", before="before/run.json", now="after/run.json").text
    assert "no change that the tests support" in page
    assert "The model is the same as in the baseline." in page
    assert browser.get("/compare", before="../run.json", now="after/run.json").status_code == 400
