"""Verdicts: what was found, in the sentences that pages, commands and the audit share."""

from __future__ import annotations

from modelkeep.bias import Amplification
from modelkeep.report.measure import percent


def amplification_verdict(found: Amplification) -> str:
    """What was found, in one or two sentences."""
    share, tilt = found.amplification, found.majority
    points = f"{100 * abs(share.value):.1f} points ({100 * share.low:+.1f} to {100 * share.high:+.1f})"
    if found.p_value > 0.05:
        return (
            f"No bias beyond chance: '{tilt}' is predicted {points} {'more' if share.value >= 0 else 'less'} often "
            f"than it occurs, which errors without any direction also give (p = {found.p_value:.2g})."
        )
    if len(found.classes) > 2 or not share.excludes(0):
        worst, name = max(zip(found.per_class, found.classes, strict=True), key=lambda pair: pair[0].value)
        return (
            f"It moves {percent(found.distance.value)} of the predictions from some classes to others (p = "
            f"{found.p_value:.2g}), most of all to '{name}', {100 * worst.value:+.1f} points."
        )
    direction, more = ("amplifies", "more") if share.value > 0 else ("reverses", "less")
    return f"It {direction} bias: '{tilt}' is predicted {points} {more} often than it occurs (p = {found.p_value:.2g})."
