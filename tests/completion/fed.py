"""Studies fed with numbers that are known: records of trials that nobody ran."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from modelkeep.results import Provenance
from modelkeep.study import Record, StudyResult
from modelkeep.study.paper import PaperStudy, PaperTable, Size
from modelkeep.study.trial import Trial

COSTS = {0.5: 2_500, 0.8: 5_000, 0.9: 7_500, 1.0: 10_000}
"""The steps that the original took to each α."""
Ratios = dict[float, float]


def curves(ratios: Ratios) -> dict[str, Any]:
    """An original with these costs, and a retraining with just these ratios."""
    found: dict[str, Any] = {"seconds_per_step": 0.01}
    for name, costs in (
        ("original", COSTS),
        ("retrained", {a: round(ratio * COSTS[a]) for a, ratio in ratios.items()}),
    ):
        reached = {0: 1.0} | {step: 1 - alpha for alpha, step in sorted(costs.items())}
        found[name] = {"steps": list(reached), "losses": list(reached.values())}
    return found


Values = Callable[[Trial], dict[str, Any] | None]
"""What a trial gave; None where it failed."""


def report(study: PaperStudy, values: Values, size: Size = "small") -> PaperTable:
    """The report of a study whose trials gave these values."""
    records = []
    for trial in study.trials(size, 0):
        value = values(trial)
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
    found = study.report(StudyResult(study="x", records=tuple(records), provenance=Provenance(None, None, 0, 1.0, "x")))
    assert isinstance(found, PaperTable)
    return found


def verdict(table: PaperTable, words: str) -> bool | None:
    """Of the one claim with these words."""
    [found] = [claim.holds for claim in table.claims if words in claim.says]
    return found
