"""Verdicts: what was found, in the sentences that pages, commands and the audit share."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from modelkeep.completion.hardness import SCRATCH, Bound, Hardness
from modelkeep.harden import Hardened, Scoreboard
from modelkeep.report.measure import percent

if TYPE_CHECKING:
    from modelkeep.bias import Amplification
    from modelkeep.extract.extraction import Extraction
    from modelkeep.report.attack import AttackReport


def amplification_verdict(found: Amplification) -> str:
    """Whether the model amplifies bias, and towards which class."""
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


def attack_verdict(found: AttackReport) -> str:
    """What an attack achieved, and how far to trust that."""
    if found.success is None:
        return "There was nothing to attack: the model gave the wanted answers before any change."
    if found.target is not None:
        first = f"{found.attack} makes it answer '{found.target}' on {percent(found.success.value)} of the examples."
    elif found.median_distance is not None and found.size == "the smallest change":
        first = f"Half of what {found.attack} found is within {found.median_distance:.3g} in {found.norm}."
    else:
        first = (
            f"The model is right on {percent(found.clean.value)} of {found.robust.n} examples, and after "
            f"{found.attack} in {found.norm}, {found.size}, on {percent(found.robust.value)}."
        )
    if found.health:
        return f"{first} It may be weaker than that: {found.health[0]}."
    return f"{first} A better attack may find more; what was found is real."


def hardening_verdict(found: Hardened | Scoreboard) -> str:
    """What hardening changed, or which defences hold."""
    if isinstance(found, Hardened):
        return (
            f"Under {found.attack} in {found.norm} at radius {found.radius:g}, accuracy goes from "
            f"{percent(found.attacked_before.value)} to {percent(found.attacked_after.value)}, and on clean inputs "
            f"from {percent(found.clean_before.value)} to {percent(found.clean_after.value)}. "
            f"Verdict: {found.verdict}."
        )
    by_verdict = {
        verdict: [n for n, s in found.scores.items() if s.verdict == verdict] for verdict in ("holds", "unclear")
    }
    hold, unclear = (", ".join(names) or "none" for names in by_verdict.values())
    return f"Against an attack that knows them, these defences hold: {hold}. Unclear: {unclear}. The others do not."


def completion_verdict(hardness: Hardness) -> str:
    """The hardest and the easiest part to get back, the strongest procedure, and what it was compared with."""
    compared = completion_comparison(hardness)
    return f"{_completion_verdict(hardness)} {compared}" if compared else _completion_verdict(hardness)


def completion_comparison(hardness: Hardness) -> str:
    """Where the trainings from scratch that measured the cost end elsewhere than the owner's model; else nothing."""
    own, best = hardness.own_loss, hardness.original_best
    if own is None or not best:
        return ""
    short = max((cell.short for cell in hardness.cells), default=0)
    reached = f"{percent(min(best))}" if max(best) == min(best) else f"{percent(min(best))} to {percent(max(best))}"
    if short:
        return (
            f"Your model is wrong on {percent(own.value)}, and trainings from scratch ended at {reached}: they take "
            "longer than that to be as good, so the shares are upper bounds. Train for longer to know."
        )
    if own.low > max(best):
        return (
            f"Your model is wrong on {percent(own.value)}, and trainings from scratch get to {reached}: the shares are "
            "of what they take to be as good as yours, and no better."
        )
    return ""


def _completion_verdict(hardness: Hardness) -> str:
    bounds = hardest_first(hardness)
    hardest, easiest = bounds[0], bounds[-1]
    procedure, parts = Counter(bound.procedure for bound in bounds).most_common(1)[0]
    if len(bounds) == 1:
        return f"To get '{hardest.part}' back takes at most {_share(hardest)}."
    named = "no procedure is faster than training from scratch" if procedure == SCRATCH else f"{procedure} is strongest"
    where = "for all parts" if parts == len(bounds) else f"for {parts} of {len(bounds)} parts"
    if hardest.hardness.value == easiest.hardness.value:
        return f"To get any of the {len(bounds)} parts back takes at most {_share(hardest)}; {named} {where}."
    return (
        f"The hardest part to get back is '{hardest.part}', with at most {_share(hardest)}; the easiest is "
        f"'{easiest.part}', with at most {_share(easiest)}. Among the procedures, {named} {where}."
    )


def extraction_verdict(found: Extraction) -> str:
    """How good the stolen copy is."""
    cost = "" if found.cost is None else f" for {found.cost:,.2f}"
    return (
        f"With {found.queries:,} queries{cost} the copy answers {percent(found.fidelity.value)} of the test data as "
        f"the target does. It is right on {percent(found.accuracy.value)}, the target on "
        f"{percent(found.target_accuracy.value)}."
    )


def hardest_first(hardness: Hardness) -> tuple[Bound, ...]:
    """The bound of each part for as much of the original progress as was asked for, the hardest part first."""
    bounds = (hardness.bound(part, hardness.alphas[-1]) for part in hardness.parts)
    return tuple(sorted(bounds, key=lambda bound: -bound.hardness.value))


def _share(bound: Bound) -> str:
    by = (
        "nothing tried was faster than training from scratch" if bound.procedure == SCRATCH else f"by {bound.procedure}"
    )
    return f"{100 * bound.hardness.value:.0f} % of the original training ({by})"
