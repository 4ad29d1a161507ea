"""A tiny version of the study, on digits that need no download, and what its report makes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from modelkeep.papers.leino2022.table_6_9 import METHODS, PAPER, measure_steepness, report, trials
from modelkeep.study import StudyResult, Trial
from papers.leino2022.performing import digits_as_mnist, performed, without

TINY = {"radius": 0.3, "network": "2C2F", "images": 600, "epochs": 12, "examples": 8}


@pytest.fixture(scope="module")
def done() -> StudyResult:
    with digits_as_mnist():
        found = performed(
            [Trial.of(measure_steepness, {"data": "mnist", "method": method, **TINY}, 0) for method in METHODS]
        )
    others = [replace(record, parameters={**record.parameters, "data": "cifar-10"}) for record in found.records]
    return replace(found, records=(*found.records, *others))


def test_bounds_are_in_order_and_training_against_them_makes_them_tighter(done: StudyResult) -> None:
    standard, gloro = (done.records[i].value for i in range(2))
    for found in (standard, gloro):
        assert 0 < found["local LB"][0] <= found["global LB"] <= found["global UB"]
        assert found["VRA"][0] <= found["clean accuracy"][0]
    assert gloro["global LB"] / gloro["global UB"] > standard["global LB"] / standard["global UB"]
    assert gloro["VRA"][0] > standard["VRA"][0]


def test_the_table_has_the_thesis_numbers_beside_ours(done: StudyResult) -> None:
    result = report(done)
    cells = {(c.row, c.column): c for c in result.cells}
    assert len(cells) == 5 * len(PAPER)
    global_bound, local = (cells["mnist at 1.58, GloRo", column] for column in ("global UB", "local LB"))
    assert (global_bound.paper, local.paper) == (2.3, 0.8)
    assert global_bound.ours is not None
    assert global_bound.ours.low == global_bound.ours.high == done.records[1].value["global UB"]
    assert local.ours is not None
    assert local.ours.low < local.ours.high
    assert "times" in str(result)
    result.draw()


def test_a_trial_that_failed_is_missing(done: StudyResult) -> None:
    missing = report(without(done, 0))
    assert missing.cells[0].ours is None
    assert [claim.verdict for claim in missing.claims] == ["unclear"] * 4


@pytest.mark.parametrize("size", ["small", "paper"])
def test_every_row_of_the_table_has_a_trial(size: Literal["small", "paper"]) -> None:
    planned = {(trial.parameters["data"], trial.parameters["method"]) for trial in trials(size, 0)}
    assert planned == set(PAPER)
