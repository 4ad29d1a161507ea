"""Figures 3 to 6 and table 6: each number of a trial is in its place, and each claim can fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from modelkeep.papers.curves import PaperCurves
from modelkeep.papers.study import PaperStudy
from modelkeep.papers.table import PaperTable
from modelkeep.papers.tang2024.arrangement import TASKS
from modelkeep.papers.tang2024.defences import SECRET, UNORDERED
from modelkeep.papers.tang2024.figures_3_4 import BUDGETS, FIGURE_3, FIGURE_4
from modelkeep.papers.tang2024.figures_5_6 import DETECTION, GROWTH, TIMES
from modelkeep.papers.tang2024.paper_figures import GUARD_S, GUARD_W, MAD, NAIVE, NONE, PBAYES
from modelkeep.papers.tang2024.table_6 import NEVER_CLEAN, TABLE_6
from modelkeep.study.trials import Trial
from records import made


def verdicts(study: PaperStudy, value_of: Callable[[Trial], Any]) -> list[bool | None]:
    report = study.report(made(study.trials("small", 0), value_of))
    report.draw()
    return [claim.holds for claim in report.claims]


def theft(accuracy: float, distance: float = 0.1) -> dict[str, Any]:
    return {"accuracy": [round(accuracy * 5000), 5000], "distance": [distance, distance, distance, 100]}


def sweep(best: dict[str, str]) -> Callable[[Trial], Any]:
    """The defence that `best` names for an attack leaves it less than the others do."""

    def value_of(trial: Trial) -> Any:
        return theft(0.3 if best[trial.parameters["attack"]] == trial.parameters["defence"] else 0.6)

    return value_of


def test_figure_3_names_the_defence_that_leaves_least() -> None:
    assert verdicts(FIGURE_3, sweep({NAIVE: GUARD_W, PBAYES: GUARD_S})) == [True, True]
    assert verdicts(FIGURE_3, sweep({NAIVE: GUARD_S, PBAYES: MAD})) == [False, False]
    assert verdicts(FIGURE_3, lambda trial: None) == [None, None]
    report = FIGURE_3.report(made(FIGURE_3.trials("small", 0), sweep({NAIVE: GUARD_W, PBAYES: GUARD_S})))
    assert isinstance(report, PaperCurves)
    assert len(report.series) == 8
    assert all(point is not None and point.value == 0.3 for point in report.series[f"{PBAYES}: {GUARD_S}"])


@pytest.mark.parametrize("falls", [False, True])
def test_figure_4_orders_by_centroids_and_not_by_budget(falls: bool) -> None:
    def value_of(trial: Trial) -> Any:
        epsilon = trial.parameters["epsilon"]
        if "attack" not in trial.parameters:
            return {"different answers": round(100 / epsilon)}
        return theft(0.2 * epsilon if falls else 0.8 - 0.2 * epsilon, 0.3 - 0.1 * epsilon if falls else 0.1 * epsilon)

    report = FIGURE_4.report(made(FIGURE_4.trials("small", 0), value_of))
    assert isinstance(report, PaperCurves)
    assert report.x == tuple(sorted(report.x))
    assert report.x[0] == 50
    assert [claim.holds for claim in report.claims] == [not falls] * 2


def test_figure_4_shares_its_thefts_with_figure_3() -> None:
    swept = {trial.identity for trial in FIGURE_3.trials("small", 0)}
    assert len(swept & {trial.identity for trial in FIGURE_4.trials("small", 0)}) == len(BUDGETS)


def test_figure_5_reads_detection_and_growth() -> None:
    def good(trial: Trial) -> Any:
        if "defence" not in trial.parameters:
            return {"queries": [0, 10, 20, 30, 40], "centroids": [0, 8, 9, 9, 9]}
        return {"auroc": 0.5 if trial.parameters["defence"] == "top-1" else 0.9, "n": 10}

    def bad(trial: Trial) -> Any:
        if "defence" not in trial.parameters:
            return {"queries": [0, 10, 20, 30, 40], "centroids": [0, 1, 2, 6, 9]}
        return {"auroc": 0.9 if trial.parameters["epsilon"] == 0 else 0.6, "n": 10}

    def blind(trial: Trial) -> Any:
        return {"auroc": 0.5, "n": 10}

    assert verdicts(DETECTION, blind) == [None, None, True]
    assert verdicts(DETECTION, good) == [True, True, True]
    assert verdicts(DETECTION, bad) == [False, False, False]
    assert verdicts(GROWTH, good) == [True]
    assert verdicts(GROWTH, bad) == [False]


def test_figure_6_compares_times_with_no_defence() -> None:
    def took(slow: dict[str, float]) -> Callable[[Trial], Any]:
        def value_of(trial: Trial) -> Any:
            added = slow.get(trial.parameters["defence"], 0.1)
            return {"milliseconds": [1.0 + added] * 3 + [9], "added": [added] * 3 + [9]}

        return value_of

    assert verdicts(TIMES, took({MAD: 9.0, GUARD_W: 5.0})) == [True, True, True]
    assert verdicts(TIMES, took({GUARD_S: 5.0})) == [False, False, False]
    assert verdicts(TIMES, lambda trial: None) == [None, None, None]
    assert NONE in {trial.parameters["defence"] for trial in TIMES.trials("small", 0)}


def test_table_6_tells_a_leak_from_none() -> None:
    def leaks(trial: Trial) -> Any:
        if trial.parameters["defence"] == UNORDERED:
            return {"changed": [40, 1000], "once": [0.4, 0.5] * 20, "twice": [0.1, 0.2] * 20}
        return {"changed": [0, 1000], "once": [], "twice": []}

    def sealed(trial: Trial) -> Any:
        return {"changed": [2, 1000], "once": [0.4, 0.5], "twice": [0.6, 0.7]}

    assert verdicts(TABLE_6, leaks) == [True] * 2 * len(TASKS)
    assert verdicts(TABLE_6, sealed) == [False] * 2 * len(TASKS)
    report = TABLE_6.report(made(TABLE_6.trials("small", 0), leaks))
    assert isinstance(report, PaperTable)
    assert [c.note for c in report.cells if GUARD_S in c.row and "asked" in c.column] == ["no answer changed"] * 8


@pytest.mark.parametrize("clean", [0, 3])
def test_what_never_answers_cleanly_is_checked(clean: int) -> None:
    def value_of(trial: Trial) -> Any:
        name = trial.home.partition(":")[2]
        if name == "steal":
            return theft(0.5)
        if name == "measure_bound":
            return {"bound": [0.2 if clean else 0.05] * 3 + [9], "by Jensen": 0.0, "error": [0.1, 0.1, 0.1, 9]}
        given = clean if trial.parameters["defence"] == SECRET else 20
        return {"distortion": [0.9, 0.4, 100], "clean answers": [given, 100], "different answers": 20}

    assert verdicts(NEVER_CLEAN, value_of) == [not clean, not clean]
    assert verdicts(NEVER_CLEAN, lambda trial: None) == [None, None]
