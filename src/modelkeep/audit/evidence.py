"""Evidence: worst examples as pictures, for findings on data that can be shown."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from modelkeep.attack import Attacked
from modelkeep.core import plots
from modelkeep.report.picture import Picture

SHOWN = 8
"""Examples that one finding shows."""


def can_be_shown(shape: Sequence[int]) -> bool:
    """Whether inputs of this shape are pictures, grey or RGB."""
    return len(shape) == 3 and shape[0] in (1, 3)


def show(
    x: torch.Tensor, titles: Sequence[str], alt: str, caption: str, bounds: tuple[float, float] | None, columns: int = 8
) -> tuple[Picture, ...]:
    """The examples `x: (n, ...)` in a picture; none where they cannot be shown or there are none."""
    if not can_be_shown(x.shape[1:]) or len(x) == 0:
        return ()
    limits = bounds if bounds is not None else (float(x.min()), float(x.max()) + 1e-6)
    return (Picture.of(plots.image_grid(x, titles, columns, limits), alt, caption),)


def show_attacked(attack: Attacked) -> tuple[Picture, ...]:
    """What the attack found, the smallest changes of it first, as pictures."""
    if not can_be_shown(attack.original.shape[1:]) or not bool((attack.success & (attack.distance > 0)).any()):
        return ()
    return (
        Picture.of(
            attack.draw(),
            "Originals, changes and adversarial inputs",
            f"Found at {attack.size}: the original, the change (grey is none; drawn stronger), and the input that the "
            "model gets wrong.",
        ),
    )
