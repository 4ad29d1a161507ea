"""Table 4.1, made again on a few pictures: every number is there, and the verdicts follow from the numbers."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from typing import Any

import pytest

from modelkeep.papers.saha2020.scenes import FAMILIES
from modelkeep.papers.saha2020.table_4_1 import (
    ADVERSARIAL,
    AFTER,
    ATTACKED,
    BEFORE,
    CLEAN,
    DEEP,
    DENOISED,
    OVERALL,
    PAPER,
    QUESTION_ONLY,
    ROWS,
    TABLE_4_1,
    report,
    train_and_answer,
    trials,
)
from modelkeep.study import StudyResult, Trial, working_in
from records import made

TINY = {"pictures": 64, "classifier_epochs": 1, "scenes": 16, "rounds": 1, "epochs": 1, "attacked": 6, "pixels": 24}


def made_of(found: dict[str, Any]) -> StudyResult:
    """A study whose trials gave this for each row; nothing: the trial failed."""
    return made(trials("small", 0), lambda trial: found.get(trial.parameters["features"]) or None)


def tiny(row: str) -> dict[str, Any]:
    (trial,) = (trial for trial in trials("small", 0) if trial.parameters["features"] == row)
    with tempfile.TemporaryDirectory() as folder, working_in(folder):
        value = train_and_answer(seed=0, **trial.parameters | TINY)
    return dict(json.loads(json.dumps(value)))


@pytest.mark.parametrize("row", [DENOISED, QUESTION_ONLY])
def test_a_row_from_pictures_to_accuracies(row: str) -> None:
    found = tiny(row)
    assert found[OVERALL] == [sum(found[family][i] for family in FAMILIES) for i in (0, 1)]
    assert found[OVERALL][1] == 10 * len(FAMILIES)
    seeing = {CLEAN, ATTACKED, BEFORE, AFTER}
    assert seeing & set(found) == (seeing if row == DENOISED else set())
    if row == DENOISED:
        assert found[ATTACKED][0] <= found[CLEAN][0]
        assert found[AFTER][0] <= found[BEFORE][0]


def test_the_same_seed_gives_the_same_figures() -> None:
    assert tiny(QUESTION_ONLY) == tiny(QUESTION_ONLY)


def rights(overall: int) -> dict[str, Any]:
    return {OVERALL: [overall, 1000], CLEAN: [90, 100], ATTACKED: [5, 100], BEFORE: [80, 100], AFTER: [10, 100]}


def test_the_thesis_own_figures_would_make_its_claims_hold() -> None:
    found = {row: rights(round(1000 * share)) for row, share in PAPER.items()} | {QUESTION_ONLY: rights(400)}
    found[ADVERSARIAL][ATTACKED] = [60, 100]
    table = report(made_of(found))
    assert [claim.holds for claim in table.claims] == [True] * 6
    for row, printed in PAPER.items():
        (cell,) = (cell for cell in table.cells if (cell.row, cell.column) == (row, OVERALL))
        assert cell.paper == printed
        assert cell.ours is not None
        assert cell.ours.value == pytest.approx(printed, abs=1e-3)
    assert table.draw().axes


def test_other_figures_are_told_as_they_are() -> None:
    claims = report(made_of({DEEP: rights(600), ADVERSARIAL: rights(900), DENOISED: rights(905)})).claims
    assert claims[1].holds is False  # adversarial features were better
    assert claims[2].holds is None  # 900 and 905 of 1,000 cannot be told apart
    assert claims[0].holds is None
    assert "missing" in claims[0].found


def test_a_missing_trial_is_missing_in_the_table() -> None:
    result = made_of({DEEP: rights(600)})
    assert {cell.row for cell in report(result).cells if cell.ours is None} == set(ROWS) - {DEEP}
    assert "missing" in str(report(replace(result, records=result.records[:1])))


def test_both_sizes_have_all_rows_of_the_same_code() -> None:
    for size in ("small", "paper"):
        found: list[Trial] = list(TABLE_4_1.trials(size, 3))
        assert [trial.parameters["features"] for trial in found] == list(ROWS)
        assert {trial.name for trial in found} == {"saha2020/table-4.1"}
