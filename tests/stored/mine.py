"""A user's own trial functions, which the stored ledger names: they must stay where they are."""

from __future__ import annotations

from dataclasses import dataclass

from modelkeep import Estimate, Result
from modelkeep.core.results import measured


@dataclass(frozen=True, kw_only=True, eq=False)
class Judged(Result):
    """A user's own kind of result."""

    accuracy: Estimate


def square(*, seed: int, x: int) -> dict[str, int]:
    """Plain values."""
    return {"square": x * x, "seed": seed}


def judged(*, seed: int, x: int) -> Judged:
    """A result."""
    with measured(seed) as provenance:
        return Judged(accuracy=Estimate.rate(x, 10), provenance=provenance())
