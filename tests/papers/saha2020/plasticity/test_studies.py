"""Tiny versions of the studies, on digits that need no download, and what their reports make of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from modelkeep.core.results import Provenance
from modelkeep.papers.saha2020.plasticity import hypotheses, memory, sweep, table_5_1
from modelkeep.papers.saha2020.plasticity.sweep import sweep as sweep_trial
from modelkeep.papers.saha2020.plasticity.table_5_1 import harden
from modelkeep.papers.table import PaperTable
from modelkeep.study import Record, StudyResult, Trial
from modelkeep.zoo import datasets
from papers.leino2022.performing import digits_as_mnist, performed, without

TINY = {"images": 600, "epochs": 10, "cycles": 2, "iterations": 4, "attacked": 10}


@pytest.fixture(scope="module")
def hardened() -> StudyResult:
    with digits_as_mnist():
        return performed([Trial.of(harden, {"depth": depth, **TINY}, 0) for depth in (3, 2)])


def cell(result: PaperTable, row: str, column: str) -> Any:
    return next(c for c in result.cells if (c.row, c.column) == (row, column))


def test_table_5_1_has_the_thesis_numbers_beside_ours(hardened: StudyResult) -> None:
    result = table_5_1.report(hardened)
    for record, column, papers in zip(
        hardened.records, ("deep model", "shallow model"), ([0.987, 0.9405], [0.995, 0.8867]), strict=True
    ):
        right, n = record.value["train accuracy"]
        assert n == 600
        assert cell(result, "train accuracy", column).ours.value == pytest.approx(right / n)
        rows = ("train accuracy", "after: train accuracy, on the adversarial data")
        assert [cell(result, row, column).paper for row in rows] == papers
    assert cell(result, "after: adversary's success", "shallow model").paper == 0.12
    assert len(result.claims) == 4
    missing = table_5_1.report(without(hardened, 0))
    assert cell(missing, "test accuracy", "deep model").ours is None
    assert "missing" in str(missing)
    assert [claim.verdict for claim in missing.claims[2:]] == ["unclear", "unclear"]


def test_figure_5_2_has_an_epoch_per_point(hardened: StudyResult) -> None:
    result = table_5_1.figure(hardened)
    assert result.x == tuple(range(1, 13))
    assert set(result.series) == {
        f"{name} model, {label}" for name in ("shallow", "deep") for label in ("as trained on", "clean test")
    }
    last = result.series["deep model, clean test"][-1]
    right, n = hardened.records[0].value["after: test accuracy"]
    assert last is not None
    assert last.value == pytest.approx(right / n)
    missing = table_5_1.figure(without(hardened, 0))
    assert missing.series["deep model, clean test"] == (None,) * 12
    assert missing.claims[0].holds is None
    result.draw()


def test_the_sweep_counts_every_stage() -> None:
    parameters = {"dataset": "digits", "depth": 1, "width": 4, "images": 200, "epochs": 2, "cycles": 1, "attacked": 20}
    trials = [Trial.of(sweep_trial, {"regularisation": name, **parameters}, 0) for name in ("none", "dropout")]
    found = performed(trials)
    assert set(found.records[0].value) == set(sweep.COLUMNS)
    result = sweep.report(found)
    assert cell(result, "digits, 1 × 4, dropout", "4 bits, clean").ours.n == len(datasets.load("digits", "test"))
    assert cell(sweep.report(without(found, 1)), "digits, 1 × 4, dropout", "before, clean").ours is None


def recorded(trials: list[tuple[dict[str, Any], int, Any]]) -> StudyResult:
    records = tuple(
        Record(str(i), "made:up", 1, parameters, seed, "made:up", "done", 1, 1.0, value, None)
        for i, (parameters, seed, value) in enumerate(trials)
    )
    return StudyResult(study="made up", records=records, provenance=Provenance(None, None, 0, 1.0, "test"))


def made_up(
    robust: Callable[[int, int], float], memory_of: Callable[[int, int], float], noise: float = 0.05, seed: int = 0
) -> StudyResult:
    """Records whose log2 odds under attack and log2 capacity are functions of depth and width, with some noise."""
    random = np.random.default_rng(seed)
    trials: list[tuple[dict[str, Any], int, Any]] = []
    for depth, width in [(d, w) for d in (1, 2, 4) for w in (4, 8, 16)]:
        for run in range(3):
            parameters = {"depth": depth, "width": width, "regularisation": "none"}
            held = round(2 ** (memory_of(depth, width) + noise * random.standard_normal()))
            trials.append((parameters, run, {"held": held, "failed": held}))
            share = 1 / (1 + 2 ** -(robust(depth, width) + noise * random.standard_normal()))
            counts = {"after, attacked": [round(10_000 * share), 10_000], "after, clean": [9_500, 10_000]}
            trials.append(({**parameters, "dataset": "mnist"}, run, counts))
    return recorded(trials)


def test_hypotheses_hold_where_they_are_built_in() -> None:
    result = hypotheses.report(
        made_up(lambda d, w: math.log2(d) - 0.5 * math.log2(w), lambda d, w: 8 + 2 * math.log2(d) - math.log2(w))
    )
    assert [claim.verdict for claim in result.claims] == ["holds"] * 4
    assert cell(result, hypotheses.MEMORY_OF, "depth").ours.value == pytest.approx(2, abs=0.1)
    assert cell(result, "mnist: odds after, attacked", "width").ours.value == pytest.approx(-0.5, abs=0.1)


def test_hypotheses_fail_where_the_opposite_is_built_in() -> None:
    result = hypotheses.report(
        made_up(
            lambda d, w: math.log2(w) - math.log2(d),
            lambda d, w: 8 + math.log2(d) - math.log2(w) + 0.6 * (math.log2(d) - 1) * (math.log2(w) - 3),
        )
    )
    assert [claim.verdict for claim in result.claims] == ["does not hold"] * 4


def test_of_networks_that_are_all_alike_hardly_any_verdict_is_given() -> None:
    reports = [hypotheses.report(made_up(lambda d, w: 0.0, lambda d, w: 8.0, 0.5, seed)) for seed in range(15)]
    decided = sum(claim.holds is not None for found in reports for claim in found.claims)
    # At 95 % confidence, some three or four of sixty are decided by chance.
    assert decided <= 10


def test_hypotheses_are_unclear_where_trials_are_missing() -> None:
    found = made_up(lambda d, w: math.log2(d), lambda d, w: 8.0)
    for index in range(len(found.records)):
        found = without(found, index)
    result = hypotheses.report(found)
    assert all(claim.holds is None for claim in result.claims)
    assert "too few trials" in str(result)


def test_capacities_are_reported_by_network_and_the_effect_of_regularisation_in_pairs() -> None:
    trials: list[tuple[dict[str, Any], int, Any]] = []
    for name, held in (("none", 400), ("dropout", 100), ("weight decay", 400)):
        for run in range(6):
            parameters = {"depth": 2, "width": 8, "regularisation": name}
            trials.append((parameters, run, {"held": held + run, "failed": held + run}))
    found = recorded(trials)
    result = memory.report(found)
    assert cell(result, "depth 2", "width 8").ours.value == pytest.approx(402.5)
    assert [claim.verdict for claim in result.claims] == ["unclear", "holds"]
    missing = memory.report(without(found, 0))
    assert "too few" in missing.claims[0].found or missing.claims[0].holds is None


@pytest.mark.parametrize(
    "study", [table_5_1.PLASTICITY, memory.MEMORY, sweep.SWEEP, hypotheses.PHI], ids=lambda s: s.declared.name
)
def test_the_paper_size_holds_the_small_ones_questions(study: Any) -> None:
    small, paper = study.trials("small", 0), study.trials("paper", 0)
    assert len({trial.identity for trial in paper}) == len(paper) >= len(small)
    assert {trial.name for trial in small} == {trial.name for trial in paper}
