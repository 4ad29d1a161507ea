"""Tables 2 to 5: every cell is there, and a verdict follows from the figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from modelkeep.papers.table import PaperTable
from modelkeep.papers.tang2024.paper_figures import (
    ACCURACY,
    AM,
    ATTACKS,
    DEFENCES,
    FEW_CLASSES,
    GUARD_S,
    GUARD_W,
    KNOCKOFF,
    MANY_CLASSES,
    NAIVE,
    NONE,
    PBAYES,
    REVSIG,
    ROWS,
    TOP,
    TOP_ONE,
    row_name,
)
from modelkeep.papers.tang2024.tables_2_to_5 import EXTRACTION_DRAWINGS, EXTRACTION_MNIST, same_as
from modelkeep.study.trials import Trial
from records import made

DISTORTIONS = {NONE: 0.0, AM: 2.0, TOP: 1.99}


def papers(change: dict[tuple[str, str], float | None]) -> Callable[[Trial], Any]:
    """Each trial gives what table 4 prints for it, of 10,000, but for the `change`."""

    def value_of(trial: Trial) -> Any:
        given = trial.parameters
        if "attack" not in given:
            moved = DISTORTIONS.get(given["defence"], 1.0)
            return {"distortion": [moved, moved, 10], "clean answers": [0, 10], "protected": [75, 100]}
        cell = row_name(given["strategy"], given["attack"]), given["defence"]
        share = change.get(cell, MANY_CLASSES[cell])
        if share is None:
            return None
        return {"accuracy": [round(share * 10_000), 10_000], "fidelity": [round((share + 0.05) * 10_000), 10_000]}

    return value_of


def reported(change: dict[tuple[str, str], float | None]) -> PaperTable:
    found = EXTRACTION_DRAWINGS.report(made(EXTRACTION_DRAWINGS.trials("small", 0), papers(change)))
    assert isinstance(found, PaperTable)
    return found


def verdicts(table: PaperTable, word: str) -> list[bool | None]:
    return [claim.holds for claim in table.claims if word in claim.says]


def test_of_96_cells_only_those_run_that_can_differ() -> None:
    cells = {same_as(*attack, defence) for attack in ATTACKS for defence in DEFENCES}
    assert len(ATTACKS) * len(DEFENCES) == 96
    assert len(cells) == 76
    assert all(same_as(*cell) == cell for cell in cells)  # a cell that runs stands for itself
    assert same_as(KNOCKOFF, TOP_ONE, AM) == (KNOCKOFF, TOP_ONE, AM)  # it may change labels
    # What the paper prints agrees: cells that are the same have the same figure, within its digits.
    for printed in (MANY_CLASSES, FEW_CLASSES):
        for strategy, attack in ATTACKS:
            for defence in DEFENCES:
                alike = same_as(strategy, attack, defence)
                assert printed[row_name(strategy, attack), defence] == printed[row_name(*alike[:2]), alike[2]]


def test_a_study_has_a_trial_per_cell_and_per_defence() -> None:
    trials = EXTRACTION_MNIST.trials("small", 3)
    assert len(trials) == 76 + 8
    assert {trial.seed for trial in trials} == {3}
    assert {trial.parameters["task"] for trial in trials} == {"mnist"}
    assert {trial.identity for trial in trials}.isdisjoint(t.identity for t in EXTRACTION_MNIST.trials("paper", 3))


def test_the_papers_own_figures_hold_its_claims_and_come_out_as_printed() -> None:
    table = reported({})
    assert {(cell.row, cell.column) for cell in table.cells} == {(row, defence) for row in ROWS for defence in DEFENCES}
    for cell in table.cells:
        if cell.row == ACCURACY or cell.row.startswith(KNOCKOFF):
            assert cell.ours is not None
            assert cell.paper is not None
            assert cell.ours.value == pytest.approx(cell.paper)
    assert verdicts(table, "defeats") == [True] * 4
    assert verdicts(table, "the least accuracy") == [True]
    assert verdicts(table, "lowers the highest accuracy") == [True]
    assert verdicts(table, "strongest attack in most") == [True]
    assert table.draw() is not None
    assert PaperTable.from_json(table.to_json()).claims == table.claims


BAYES = row_name(KNOCKOFF, PBAYES)


def test_a_defence_that_withstands_is_not_defeated() -> None:
    table = reported({(BAYES, GUARD_W): 0.30})
    assert {claim.says.split()[2]: claim.holds for claim in table.claims if "defeats" in claim.says} == {
        "RevSig:": True, "MAD:": True, "AM:": True, "ModelGuard-W:": False,
    }  # fmt: skip


def test_pbayes_is_not_the_strongest_where_naive_is_better() -> None:
    better: dict[tuple[str, str], float | None] = {(row_name(KNOCKOFF, NAIVE), d): 0.9 for d in DEFENCES[1:]}
    assert verdicts(reported(better), "strongest attack in most") == [False]


def test_modelguard_s_does_not_stand_where_another_leaves_less() -> None:
    table = reported({(row_name(*attack), REVSIG): 0.10 for attack in ATTACKS if attack[1] != TOP_ONE})
    # The top-1 attack on RevSig is the one on the top-1 defence, and gets 0.555: still less than ModelGuard-S leaves.
    assert verdicts(table, "the least accuracy") == [False]


def test_a_draw_is_unclear_and_a_missing_trial_too() -> None:
    even = reported({(row_name(*attack), GUARD_W): 0.5974 for attack in ATTACKS if attack[1] != TOP_ONE})
    assert verdicts(even, "the least accuracy") == [None]
    missing = reported({(BAYES, GUARD_S): None})
    assert verdicts(missing, "the least accuracy") == [None]
    assert verdicts(missing, "strongest attack in most") == [None]
    assert verdicts(missing, "defeats ModelGuard-W") == [True]
