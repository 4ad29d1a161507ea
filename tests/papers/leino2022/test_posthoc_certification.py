"""A tiny version of the study, on digits that need no download, and what its report makes of it."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from modelkeep.papers.leino2022.posthoc_certification import POSTHOC, certify_noisy, certify_plain, report, trials
from modelkeep.papers.table import PaperTable
from modelkeep.study import StudyResult, Trial
from papers.leino2022.performing import digits_as_mnist, performed, without

TINY = {"radius": 0.3, "images": 1_000, "epochs": 3, "inputs": 20, "samples": 100}


@pytest.fixture(scope="module")
def done() -> StudyResult:
    with digits_as_mnist():
        return performed([Trial.of(certify_plain, {**TINY, "attacked": 30}, 0), Trial.of(certify_noisy, TINY, 0)])


def cell(result: PaperTable, row: str, column: str) -> Any:
    return next(c for c in result.cells if (c.row, c.column) == (row, column))


def test_what_is_proved_is_at_most_what_the_attack_left(done: StudyResult) -> None:
    found = done.records[0].value
    assert found["clean"][0] > 0.5 * found["clean"][1]
    assert found["VRA"][0] / found["VRA"][1] <= found["PGD"][0] / found["PGD"][1] + 0.1  # of other examples
    assert found["smoothed"]["VRA"][0] <= found["smoothed"]["clean"][0]
    assert found["smoothed"]["passes"] <= 200


def test_the_table_has_the_thesis_numbers_beside_ours(done: StudyResult) -> None:
    result = report(done)
    assert cell(result, "standard, ε=0.3", "VRA").paper == 0.0
    assert cell(result, "standard, ε=0.3", "VRA").ours.n == done.records[0].value["VRA"][1]
    assert cell(result, "RS, ε=0.3", "VRA").paper == 0.974
    assert cell(result, "standard, then smoothed, ε=0.3", "VRA").paper is None
    assert "passes per input" in cell(result, "smoothing, ε=0.3", "seconds for 10,000 inputs").note
    assert "for the constants" in cell(result, "Lipschitz, ε=0.3", "seconds for 10,000 inputs").note
    assert cell(result, "RS, ε=1.58", "VRA").ours is None  # not among these trials
    assert "does not lead to certified predictions" in str(result)
    result.draw()


def test_a_trial_that_failed_is_missing(done: StudyResult) -> None:
    missing = report(without(done, 0))
    assert cell(missing, "standard, ε=0.3", "PGD").ours is None
    assert [claim.verdict for claim in missing.claims] == ["unclear"] * 4
    assert cell(report(without(done, 1)), "RS, ε=0.3", "VRA").ours is None


@pytest.mark.parametrize("size", ["small", "paper"])
def test_each_size_has_a_trial_per_training_and_radius(size: Literal["small", "paper"]) -> None:
    assert len(trials(size, 0)) == 4
    assert POSTHOC.study(size, 0).name == f"posthoc-{size}-seed-0"
