"""Curve: a loss over the steps of a run, the cost to reach a loss, and the ratio of two costs (Martic2018, eq. 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any

from modelkeep.core.errors import InputError, bad_parameter


@dataclass(frozen=True)
class Curve:
    """The losses L(θ_0), …, L(θ_N) of a run on a fixed grid of `steps`, which begins with 0.

    The loss of a classifier is its error rate on held-out data; that of an agent is the negative mean return of an
    episode (Martic2018, section 3).
    """

    steps: tuple[int, ...]
    losses: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.steps or self.steps[0] != 0 or any(not a < b for a, b in pairwise(self.steps)):
            raise InputError(f"The steps of a curve must rise from 0. Got {self.steps[:5]} ….")
        if len(self.steps) != len(self.losses) or not all(map(isfinite, self.losses)):
            raise InputError(f"A curve needs a finite loss for each of its {len(self.steps)} steps.")

    @property
    def best(self) -> float:
        """ℓ*: the least loss of the run, not necessarily the last one."""
        return min(self.losses)

    def cost(self, loss: float) -> int | None:
        """C(ℓ): the first step at which the loss is at most `loss`; None where the run ended before.

        >>> Curve((0, 10, 20), (0.9, 0.3, 0.1)).cost(0.5)
        10
        """
        return next((step for step, found in zip(self.steps, self.losses, strict=True) if found <= loss), None)

    def threshold(self, alpha: float, own: float | None = None) -> float:
        """ℓ*_α = αℓ* + (1 − α)L(θ_0); ℓ* is the `own` loss of the model to complete, else the best of this run.

        >>> Curve((0, 10, 20), (0.9, 0.3, 0.1)).threshold(0.5)
        0.5
        """
        if not 0 < alpha <= 1:
            raise bad_parameter("Curve.threshold", "alpha", "a share above 0 and at most 1", alpha)
        best = self.best if own is None else own
        # α = 1 must give ℓ* to the last bit, or the run itself might not reach its own best loss.
        return best if alpha == 1 else alpha * best + (1 - alpha) * self.losses[0]

    def to_json(self) -> dict[str, list[float]]:
        """For the value of a trial."""
        return {"steps": list(self.steps), "losses": list(self.losses)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Curve:
        """The curve that `to_json` wrote; other keys are ignored."""
        return cls(tuple(values["steps"]), tuple(values["losses"]))


@dataclass(frozen=True)
class Ratio:
    """C'(ℓ*_α) / C(ℓ*_α) of one retraining. `value` is at most 1: retraining from scratch is always possible.

    `raw` is the ratio as measured, which may exceed 1. It is None where the retraining never reached the loss, and
    `censored` is True then. `short` says that the original run itself ended before it got there: its cost is then at
    least all its steps, and the ratio at most this one.
    """

    value: float
    raw: float | None
    short: bool = False

    @property
    def censored(self) -> bool:
        """Whether the retraining ended before it reached the loss."""
        return self.raw is None


def ratio(original: Curve, retrained: Curve, alpha: float, own: float | None = None) -> Ratio:
    """The term of Martic2018, eq. 1 for one pair of runs; the equation takes its expectation.

    `own` is the loss of the model to complete, where `original` is not the run that made it.

    >>> original = Curve((0, 10, 20, 30), (1.0, 0.5, 0.2, 0.0))
    >>> ratio(original, Curve((0, 10, 20), (0.9, 0.1, 0.0)), 1.0).value
    0.6666666666666666
    """
    if own is None and not original.best < original.losses[0]:
        raise InputError("The original training never got better than at its start: there is nothing to complete.")
    if own is not None and not own < original.losses[0]:
        raise InputError(
            f"The model to complete has a loss of {own:.3g}, and an untrained one {original.losses[0]:.3g}: there is "
            "nothing to complete."
        )
    loss = original.threshold(alpha, own)
    cost, again = original.cost(loss), retrained.cost(loss)
    short = cost is None
    whole = original.steps[-1] if cost is None else cost
    return Ratio(1.0, None, short) if again is None else Ratio(min(1.0, again / whole), again / whole, short)
