"""Completion studies fed with numbers that are known."""

from __future__ import annotations

from typing import Any

from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.table import PaperTable
from records import Values, made

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


def report(study: PaperStudy, values: Values, size: Size = "small") -> PaperTable:
    """The report of a study whose trials gave these values."""
    found = study.report(made(study.trials(size, 0), values))
    assert isinstance(found, PaperTable)
    return found


def verdict(table: PaperTable, words: str) -> bool | None:
    """Of the one claim with these words."""
    [found] = [claim.holds for claim in table.claims if words in claim.says]
    return found
