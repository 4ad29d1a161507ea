"""BIM: FGSM again and again with small steps, from the original itself (Kurakin2016; Saha2020, eq. 2.13)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from modelkeep.attack.base import BoundedAttack
from modelkeep.attack.case import Case
from modelkeep.attack.gradient.ascent import ascend_until_solved
from modelkeep.core.access import Weights
from modelkeep.core.method import declare, setting


@declare("attack", "bim", access="weights", paper="Kurakin2016; Saha2020, eq. 2.13")
class BIM(BoundedAttack):
    """Steps from the original: PGD without its random start."""

    cheap: ClassVar[dict[str, Any]] = {"radius": 0.1, "steps": 3}

    steps: int = setting("Gradient steps.", default=40, at_least=1)
    step_size: float | None = setting("Length of a step; without it, 2.5 · radius / steps.", default=None, above=0)

    def search(self, case: Case[Weights], /) -> torch.Tensor:
        """Where the ascent ends for each example, `(n, ...)`."""
        size = 2.5 * case.ball.reach / self.steps if self.step_size is None else self.step_size
        return ascend_until_solved(case, case.original, [size] * self.steps)
