"""What was found about a model's completion, in the sentences of the page and of the command."""

from __future__ import annotations

from collections import Counter

from modelkeep.completion.hardness import SCRATCH, Bound, Hardness


def strongest_for(hardness: Hardness) -> tuple[Bound, ...]:
    """The bound of each part for as much of the original progress as was asked for, the hardest part first."""
    bounds = (hardness.bound(part, hardness.alphas[-1]) for part in hardness.parts)
    return tuple(sorted(bounds, key=lambda bound: -bound.hardness.value))


def answer(hardness: Hardness) -> str:
    """In a sentence or two: the hardest and the easiest part, and the strongest procedure."""
    bounds = strongest_for(hardness)
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


def _share(bound: Bound) -> str:
    by = (
        "nothing tried was faster than training from scratch" if bound.procedure == SCRATCH else f"by {bound.procedure}"
    )
    return f"{100 * bound.hardness.value:.0f} % of the original training ({by})"


def duration(seconds: float) -> str:
    """Seconds as a person reads them.

    >>> duration(0.5), duration(90), duration(9000)
    ('0.50 s', '1.5 min', '2.5 h')
    """
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
