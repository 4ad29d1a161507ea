"""Admission: tensors come once, in the pass under way, from who sends them, and no larger than they can be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from modelkeep.govern.piece.computation import Computation
from modelkeep.govern.session.admission import Admission

HEADER = {"session": "s", "pass": "p", "leg": 1, "part": 0}


def under_way() -> Computation:
    """A pass in which activations of at most 100 bytes are due from Alice, at stage 1."""
    found = SimpleNamespace(
        of=SimpleNamespace(digest="p"),
        due=lambda peer, kind, number, part: (peer, kind, number, part) == ("alice", "activations", 1, 0),
        largest=lambda kind, number, part: 100,
    )
    return cast(Computation, found)


def test_what_is_due_comes_once_in_each_pass() -> None:
    admission, computation = Admission(), under_way()
    for _ in range(2):
        assert admission.admit(computation, "s", "alice", "activations", HEADER, 100) == ""
        assert "came twice" in admission.admit(computation, "s", "alice", "activations", HEADER, 100)
        admission.forget()


@pytest.mark.parametrize(
    ("peer", "kind", "changed", "size", "why"),
    [
        ("alice", "clear", {}, 1, "with a message that has none"),
        ("alice", "opening", {}, 1, "with a message that has none"),
        ("alice", "activations", {"session": "t"}, 1, "of a session that is over"),
        ("alice", "activations", {"pass": "q"}, 1, "of a pass that has not begun"),
        ("carol", "activations", {}, 1, "the wrong party"),
        ("alice", "gradients", {}, 1, "the wrong party"),
        ("alice", "activations", {"part": []}, 1, "the wrong party"),
        ("alice", "activations", {}, 101, "of 101 bytes"),
    ],
)
def test_all_else_is_refused_with_the_senders_name(
    peer: str, kind: str, changed: dict[str, Any], size: int, why: str
) -> None:
    admission = Admission()
    refusal = admission.admit(under_way(), "s", peer, kind, HEADER | changed, size)
    assert why in refusal
    assert f"'{peer}'" in refusal
    assert admission.admit(under_way(), "s", "alice", "activations", HEADER, 100) == ""  # it has cost nothing


def test_nothing_comes_where_no_pass_or_no_session_is() -> None:
    admission = Admission()
    assert "has not begun" in admission.admit(None, "s", "alice", "activations", HEADER, 1)
    assert "session that is over" in admission.admit(
        under_way(), "", "alice", "activations", {**HEADER, "session": ""}, 1
    )
