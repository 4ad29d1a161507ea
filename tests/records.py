"""A study whose trials gave what a test says: records of trials that never ran."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from modelkeep.core.results import Provenance
from modelkeep.study import Record, StudyResult
from modelkeep.study.trials import Trial

Values = Callable[[Trial], Any]
"""What a trial gave; None where it failed."""


def made(trials: Iterable[Trial], value_of: Values) -> StudyResult:
    """The result of these trials with what a function gives for each."""
    records = []
    for trial in trials:
        value = value_of(trial)
        records.append(
            Record(
                identity=trial.identity,
                name=trial.name,
                version=trial.version,
                parameters=trial.parameters,
                seed=trial.seed,
                home=trial.home,
                state="failed" if value is None else "done",
                value=value,
                attempts=1,
                seconds=1.0,
                error="it failed" if value is None else None,
            )
        )
    return StudyResult(study="test", records=tuple(records), provenance=Provenance(None, None, 0, 1.0, "test"))
