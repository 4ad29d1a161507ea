"""Measure: a share with its interval, and how a person reads it."""

from __future__ import annotations

from dataclasses import dataclass

from modelkeep.core.results import Estimate


@dataclass(frozen=True)
class Measure:
    """A named share between 0 and 1, with its interval."""

    name: str
    estimate: Estimate


def points(difference: float) -> str:
    """A difference of two shares in percentage points, with its sign.

    >>> points(0.25), points(-0.001), points(0.0)
    ('+25.0', '−0.1', '0.0')
    """
    told = f"{100 * difference:+.1f}"
    return "0.0" if told in ("+0.0", "-0.0") else told.replace("-", "−")


def percent(share: float) -> str:
    """A share as a person reads it; never 0 % or 100 % for what is not exactly that.

    >>> percent(0.5), percent(0.99999)
    ('50.0 %', '> 99.9 %')
    """
    if 0 < share < 0.001 or 0.999 < share < 1:
        return "< 0.1 %" if share < 0.5 else "> 99.9 %"
    return f"{100 * share:.1f} %"
