"""BIM: FGSM again and again with small steps, from the original itself (Kurakin et al.; thesis 004, eq. 2.13)."""

from __future__ import annotations

import torch

from modelkeep.attack.case import Target
from modelkeep.attack.frame import carry_out
from modelkeep.attack.gradient.pgd import PGD
from modelkeep.attack.result import Attacked
from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball, Norm


def bim(
    model: Model,
    data: Data,
    *,
    norm: Norm = "linf",
    radius: float,
    steps: int = 40,
    step_size: float | None = None,
    target: str | Target | None = None,
    mask: torch.Tensor | None = None,
    batch_size: int = 256,
    seed: int,
) -> Attacked:
    """Look for inputs within `radius` that the model gets wrong: PGD without its random start.

    Args:
        model: The model; gradients of its weights are not computed, and it is left as it was.
        data: Examples with their true labels.
        norm: "linf", "l2" or "l1".
        radius: The largest allowed distance, in the owner's units.
        steps: Gradient steps.
        step_size: Length of a step; 2.5 · radius / steps where it is not given.
        target: The class that the answer should become; without it, any wrong answer will do.
        mask: True where the input may change, such as the background only; it must broadcast to the inputs' shape.
        batch_size: Examples that are run at once.
        seed: For models that are random.
    """
    return carry_out(
        model,
        data,
        [PGD(steps, step_size, random_start=False)],
        attack="BIM",
        ball=Ball(norm, radius, model.bounds),
        target=target,
        mask=mask,
        batch_size=batch_size,
        seed=seed,
    )
