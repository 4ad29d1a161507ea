"""Studies whose trials gave what a test says, and a plan that fits into seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from modelkeep.extract.studies import owner
from modelkeep.extract.studies.arrangement import arranged
from modelkeep.extract.studies.plans import SMALL
from modelkeep.extract.studies.standing import _misinforming
from modelkeep.results import Provenance
from modelkeep.study import Record, StudyResult
from modelkeep.study.trial import Trial
from modelkeep.training import Linear, Recipe

Made = Callable[[Sequence[Trial], Callable[[Trial], Any]], StudyResult]


@pytest.fixture
def made() -> Made:
    """A result of these trials with what a function gives for each; None: the trial failed."""

    def make(trials: Sequence[Trial], value_of: Callable[[Trial], Any]) -> StudyResult:
        records = []
        for trial in trials:
            value = value_of(trial)
            records.append(
                Record(
                    identity=trial.identity,
                    function=trial.function,
                    parameters=trial.parameters,
                    seed=trial.seed,
                    code=trial.code,
                    state="failed" if value is None else "done",
                    value=value,
                    attempts=1,
                    seconds=1.0,
                    error="it failed" if value is None else None,
                )
            )
        return StudyResult(study="test", records=tuple(records), provenance=Provenance(None, None, 0, 1.0, "test"))

    return make


@pytest.fixture
def tiny() -> dict[str, Any]:
    """A plan for the digits."""
    short = Recipe(epochs=6, batch_size=64, learning_rate=Linear(5e-3, 0.0)).to_json()
    return replace(
        SMALL, examples=600, tested=200, training=short, queries=150, seeds=60, stealing=short, shadows=1, samples=3,
        shadowing=short, restoring=short,
    ).to_json()  # fmt: skip


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What a process keeps for its next trial is not kept for the next test."""
    yield
    for kept in (owner._owner, arranged, _misinforming):
        kept.cache_clear()
