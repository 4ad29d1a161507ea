"""The measures of an attack that tells members from non-members by a score, each with an interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modelkeep.core.results import Estimate

Array = NDArray[np.float64]
LEVEL = 0.95


def share_level(count: int, level: float = LEVEL) -> float:
    """The level of each of `count` intervals that together hold at `level`, whatever their dependence (Bonferroni).

    >>> round(share_level(2), 6)
    0.975
    """
    return 1 - (1 - level) / count


@dataclass(frozen=True)
class OperatingPoint:
    """The share of members that are found where at most `false_positive_rate` of the non-members are accused.

    `needed` is the number of non-members from which on a claim can be made. With fewer, no threshold is known to keep
    the false positive rate, and the interval of `found` reaches down to 0.
    """

    false_positive_rate: float
    found: Estimate
    needed: int
    non_members: int

    @property
    def enough(self) -> bool:
        """Whether there are enough non-members to claim anything."""
        return self.non_members >= self.needed

    @property
    def claimed(self) -> bool:
        """Whether members are found more often than by chance, beyond doubt."""
        return self.enough and self.found.low > self.false_positive_rate


def roc(members: Array, non_members: Array) -> tuple[Array, Array]:
    """False and true positive rates for each threshold, from (0, 0) to (1, 1). A record is accused above it."""
    thresholds = np.unique(np.concatenate([members, non_members]))[::-1]
    false = np.searchsorted(np.sort(-non_members), -thresholds, side="right") / len(non_members)
    true = np.searchsorted(np.sort(-members), -thresholds, side="right") / len(members)
    return np.concatenate([[0.0], false]), np.concatenate([[0.0], true])


def threshold_at(non_members: Array, false_positive_rate: float) -> float:
    """The lowest score above which no more than this share of the non-members lie.

    >>> threshold_at(np.array([1.0, 2.0, 3.0, 4.0]), 0.25)
    3.0
    """
    return float(_falling(non_members)[math.floor(false_positive_rate * len(non_members) + 1e-9) + 1])


def _falling(scores: Array) -> Array:
    return np.concatenate([[np.inf], np.sort(scores)[::-1], [-np.inf]])


def operating_point(
    members: Array, non_members: Array, false_positive_rate: float, level: float = LEVEL
) -> OperatingPoint:
    """The true positive rate at a false positive rate, with an interval that needs no assumption on the scores.

    The threshold is a quantile of the non-members' scores, and is uncertain as the share of members above it is. Two
    order statistics hold the quantile at 97.5 % (by the binomial distribution), and Clopper–Pearson's limits hold the
    share above each of them at 97.5 %: together 95 %, or another `level` in the same way.
    """
    from scipy.stats import binom

    m, n, rate = len(members), len(non_members), false_positive_rate
    half = share_level(2, level)
    tail = (1 - half) / 2
    down = _falling(non_members)
    # The number of non-members above the true quantile is binomial. `few` of them or fewer are rare, and so are `many`.
    few = int(binom.ppf(tail, n, rate))
    few -= int(binom.cdf(few, n, rate) > tail)
    many = int(binom.isf(tail, n, rate)) + 1
    strict = down[few + 1] if few >= 0 else np.inf
    loose = down[min(many, n + 1)]
    found = int((members > threshold_at(non_members, rate)).sum())
    low = Estimate.rate(int((members > strict).sum()), m, half).low
    high = Estimate.rate(int((members > loose).sum()), m, half).high
    needed = math.ceil(math.log(tail) / math.log1p(-rate))
    return OperatingPoint(rate, Estimate(found / m, low, high, m, level), needed, n)


def area(members: Array, non_members: Array, level: float = LEVEL) -> Estimate:
    """The area under the curve: how often a member scores above a non-member, a tie being half. DeLong's interval."""
    from scipy.stats import norm, rankdata

    m, n = len(members), len(non_members)
    ranks = rankdata(np.concatenate([members, non_members]))
    above = (ranks[:m] - rankdata(members)) / n  # of each member: the share of the non-members below it
    below = 1 - (ranks[m:] - rankdata(non_members)) / m
    value = float(above.mean())
    variance = _variance(above) / m + _variance(below) / n
    if value in (0.0, 1.0) or variance == 0:
        # DeLong's interval would be a point. As many pairs without a record in common are ordered, or tied, alike.
        pairs = min(m, n)
        limits = Estimate.rate(round(value * pairs), pairs, level)
        return Estimate(value, min(value, limits.low), max(value, limits.high), m + n, level)
    # On the scale of the log odds, so that the interval stays between 0 and 1.
    odds, spread = math.log(value / (1 - value)), math.sqrt(variance) / (value * (1 - value))
    reach = float(norm.isf((1 - level) / 2)) * spread
    return Estimate(value, 1 / (1 + math.exp(reach - odds)), 1 / (1 + math.exp(-reach - odds)), m + n, level)


@dataclass(frozen=True)
class Decision:
    """What the attack's own decisions, "member" above 0, are worth where both kinds are equally likely."""

    advantage: Estimate
    balanced_accuracy: Estimate
    precision: Estimate


def decide(members: Array, non_members: Array, level: float = LEVEL) -> Decision:
    """The advantage TPR - FPR, and what follows from it.

    The interval of the difference is made of the two exact ones by squares, as Newcombe1998 makes it of Wilson's. The
    precision is TPR / (TPR + FPR), and by definition 1/2 where no record is accused. Its interval holds for any pair of
    rates in their 97.5 % intervals.
    """
    m, n = len(members), len(non_members)
    true = Estimate.rate(int((members > 0).sum()), m, level)
    false = Estimate.rate(int((non_members > 0).sum()), n, level)
    value = true.value - false.value
    low = value - math.hypot(true.value - true.low, false.high - false.value)
    high = value + math.hypot(true.high - true.value, false.value - false.low)
    true2, false2 = (Estimate.rate(round(e.value * e.n), e.n, share_level(2, level)) for e in (true, false))
    return Decision(
        Estimate(value, low, high, m + n, level),
        Estimate((1 + value) / 2, (1 + low) / 2, (1 + high) / 2, m + n, level),
        Estimate(
            _precision(true.value, false.value),
            _precision(true2.low, false2.high),
            _precision(true2.high, false2.low),
            m + n,
            level,
        ),
    )


def _precision(true: float, false: float) -> float:
    return true / (true + false) if true + false > 0 else 0.5


def _variance(values: NDArray[Any]) -> float:
    return float(values.var(ddof=1)) if len(values) > 1 else 0.0
