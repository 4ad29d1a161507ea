"""A tiny version of the study, and what its report makes of it."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from modelkeep.papers.leino2022.table_7_3_aircraft import GUARANTEES, TARGETED, certify_encounters, report, trials
from modelkeep.papers.table import PaperTable
from modelkeep.study import StudyResult, Trial
from papers.leino2022.performing import performed, without

TINY = {"rows": 500, "tests": 200, "hidden": 64, "epochs": 60}


@pytest.fixture(scope="module")
def done() -> StudyResult:
    return performed([Trial.of(certify_encounters, {"guarantee": name, **TINY}, 0) for name in GUARANTEES])


def cell(result: PaperTable, row: str, column: str) -> Any:
    return next(c for c in result.cells if (c.row, c.column) == (row, column))


def test_it_learns_and_certifies(done: StudyResult) -> None:
    for record in done.records:
        found = record.value
        verified, rejected, accurate = (found[name][0] for name in ("VRA", "rejection rate", "clean accuracy"))
        constant = 80 if record.parameters["guarantee"] == "targeted affinity" else 40  # an answer that never changes
        assert constant < verified <= accurate
        assert verified + rejected <= found["VRA"][1]
        assert found["right directive"][0] <= accurate
    affinity, standard = (record.value for record in done.records)
    assert affinity["between directives"] == standard["between directives"] > 0


def test_the_table_has_the_thesis_numbers_beside_ours(done: StudyResult) -> None:
    result = report(done)
    papers = [cell(result, "targeted affinity", name).paper for name in ("VRA", "rejection rate", "clean accuracy")]
    assert papers == [0.749, 0.195, 0.858]
    assert cell(result, "standard", "VRA").paper is None
    assert cell(result, "standard", "VRA").ours.n == 200
    assert len(result.claims) == 3
    result.draw()


def test_a_trial_that_failed_is_missing(done: StudyResult) -> None:
    missing = report(without(done, 0))
    assert cell(missing, "targeted affinity", "VRA").ours is None
    assert [claim.verdict for claim in missing.claims] == ["unclear"] * 3
    assert "missing" in str(missing)


@pytest.mark.parametrize("size", ["small", "paper"])
def test_each_size_trains_for_both_guarantees(size: Literal["small", "paper"]) -> None:
    assert [trial.parameters["guarantee"] for trial in trials(size, 0)] == list(GUARANTEES)
    assert TARGETED.study(size, 0).name == f"targeted-safe-regions-{size}-seed-0"
