"""APGD-T: the climb of APGD towards one wrong class after the other (Croce2020)."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import torch

from modelkeep.attack.base import BoundedAttack
from modelkeep.attack.case import Case
from modelkeep.attack.gradient.climb import climb
from modelkeep.attack.gradient.logit_ratio import logit_ratio, logit_ratio_towards
from modelkeep.core.access import Weights
from modelkeep.core.method import declare, setting


@declare("attack", "apgd-targeted", access="weights", paper="Croce2020")
class APGDTargeted(BoundedAttack):
    """APGD towards each of the most likely wrong classes, on what still stands.

    Where the attack has a target of its own, it goes only there.
    """

    cheap: ClassVar[dict[str, Any]] = {"radius": 0.1, "steps": 4, "targets": 2}

    steps: int = setting("Gradient steps towards each class.", default=100, at_least=1)
    targets: int = setting(
        "How many of the most likely wrong classes are tried; where there are fewer, all.", default=9, at_least=1
    )

    @property
    def title(self) -> str:
        """As the paper calls it."""
        return "APGD-T"

    def search(self, case: Case[Weights], /) -> torch.Tensor:
        """Where the last climb ends for each example, `(n, ...)`."""
        # One start for all targets: the draws then do not depend on how examples are divided into batches.
        start = case.ball.random_point(case.original, case.generator, case.allowed)
        if case.targeted:
            return climb(case, start, logit_ratio, self.steps)[0]
        with torch.no_grad():
            clean = case.view.forward(case.original)
        wrong = clean.scatter(1, case.goal[:, None], -torch.inf).argsort(dim=1, descending=True)
        end, stands = start.clone(), torch.arange(len(case), device=start.device)
        for towards in wrong[:, : min(self.targets, clean.shape[1] - 1)].unbind(dim=1):
            rival = partial(logit_ratio_towards, towards[stands])
            ends, solved = climb(case.part(stands), start[stands], rival, self.steps)
            end[stands] = ends
            stands = stands[~solved]
            if len(stands) == 0:
                break
        return end
