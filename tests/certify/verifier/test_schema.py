"""A certificate holds the fields that it may hold, in their form; and its promise says something."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from certify.certificates import Handed
from modelkeep.certify.verifier import Report

Content = dict[str, Any]


def put(*path: Any, value: Any) -> Callable[[Content], None]:
    """Set the value at the end of the path."""

    def change(content: Content) -> None:
        place: Any = content
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


def all_without_limit(guarantee: Content) -> Callable[[Content], None]:
    """A promise that all inputs meet at any radius."""

    def change(content: Content) -> None:
        content["guarantee"] = guarantee
        for entry in content["inputs"]:
            entry["radius"] = None
        content["summary"] |= {"certified": 30, "verified": 30}

    return change


def negative_radius(content: Content) -> None:
    content["radius"] = -1.0
    content["summary"]["certified"] = 30


def no_rounding_at_all(content: Content) -> None:
    """No rounding, and logits of the owner that fit to that: only the pass itself tells."""
    rounding = content["rounding"]
    for name in ("apart", "lengths", "constant"):
        rounding[name] = [[0.0] * 10 for _ in range(10)]
    for entry in content["inputs"]:
        entry["computed"] = entry["logits"]


LIES: dict[str, tuple[str, Callable[[Content], None]]] = {
    "radius -1": ("promise", negative_radius),
    "radius 0": ("promise", put("radius", value=0.0)),
    "an unknown field": ("content", put("audited_by", value="somebody with a name")),
    "an unknown field of the model": ("content", put("model", "robust", value=True)),
    "an unknown field of an input": ("content", put("inputs", 3, "note", value="certified")),
    "an unknown setting": ("content", put("operations", 1, "settings", "exact", value=1)),
    "an unknown tensor of an operation": ("content", put("operations", 1, "tensors", "mask", value="conv1.bias")),
    "a tensor that nothing uses": (
        "content",
        lambda c: c["weights"]["tensors"].update(more=c["weights"]["tensors"]["conv1.bias"]),
    ),
    "top 99 of 10": ("promise", all_without_limit({"kind": "top-k", "k": 99, "groups": None})),
    "top 10 of 10": ("promise", all_without_limit({"kind": "top-k", "k": 10, "groups": None})),
    "top 0": ("promise", put("guarantee", value={"kind": "top-k", "k": 0, "groups": None})),
    "a group of all classes": (
        "promise",
        all_without_limit({"kind": "affinity", "k": None, "groups": [list(range(10))]}),
    ),
    "a group with a class that is none": (
        "promise",
        put("guarantee", value={"kind": "affinity", "k": None, "groups": [[0, -1]]}),
    ),
    "two classes of one name": ("promise", put("model", "classes", 1, value="0")),
    "float64 that is none": ("shapes", put("model", "dtype", value="float64")),
    "a type that is none": ("shapes", put("model", "dtype", value="float128")),
    "a label that is none": ("shapes", put("inputs", 0, "label", value=10)),
    "true for a label": ("content", put("inputs", 0, "label", value=True)),
    "a radius beyond all numbers": ("content", put("radius", value=10**400)),
    "a slack of more than all": ("promise", put("slack", value=2.0)),
    "no rounding": ("logits", no_rounding_at_all),
    "words for a number": ("content", put("radius", value="0.05")),
}


def failing(report: Report) -> dict[str, str]:
    return {check.name: check.says for check in report.checks if check.status == "fails"}


@pytest.mark.parametrize("what", LIES)
def test_what_a_certificate_may_not_say_is_refused(handed: Handed, tmp_path: Path, what: str) -> None:
    where, change = LIES[what]
    report = handed.verify(handed.changed(tmp_path / "c.json", change, rebind=what != "words for a number"))
    assert (report.word, report.exit_code) == ("refused", 1)
    assert where in failing(report) or "certificate" in failing(report)
    assert "REFUSED" in report.verdict


@pytest.mark.parametrize("version", [True, 2.0, 3, "2", None])
def test_other_versions_are_not_read(handed: Handed, tmp_path: Path, version: Any) -> None:
    path = handed.changed(tmp_path / "c.json", put("version", value=version))
    assert "reads versions 1 and 2" in failing(handed.verify(path))["certificate"]
