"""A withdrawal in the middle of a training, in processes of their own: nothing begins or is prepared after it."""

from __future__ import annotations

from govern.withdrawal import run


def test_nothing_begins_after_a_withdrawal() -> None:
    told = run(4, seed=1, load=0, longest=0.2)
    assert (told.begun_after, told.prepared_after, told.findings) == (0, 0, 0)
    assert len(told.withdrawn) == 4
