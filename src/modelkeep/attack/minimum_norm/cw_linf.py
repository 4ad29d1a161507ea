"""Carlini and Wagner's search in linf: Adam with no change allowed beyond τ, and a τ that becomes ever smaller.

The paper punishes what exceeds τ; here it is cut off, which is what that penalty tends to, and there is no constant to
choose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from modelkeep.attack.case import Case
from modelkeep.attack.minimum_norm.boundary import Nearest, across, back_to_the_boundary, counts
from modelkeep.attack.minimum_norm.deepfool import DeepFool
from modelkeep.attack.schedule import cosine_length
from modelkeep.core.access import Weights
from modelkeep.core.norms import per_example

if TYPE_CHECKING:
    from modelkeep.attack.minimum_norm.cw import CW

_ALMOST = 1.001  # the sum of original and change is rounded: its distance may be τ and a little


@dataclass(frozen=True)
class LinfSearch:
    """The inner loop; `binary_search_steps` is how many τ are tried at most."""

    settings: CW
    title: ClassVar[str] = "C&W L∞"
    sees: ClassVar[type[Weights]] = Weights

    def search(self, case: Case[Weights], /) -> torch.Tensor:
        """The nearest point that was seen to count for each example, `(n, ...)`."""
        start, _ = across(case, DeepFool(steps=1).walk(case), confidence=self.settings.confidence)
        start = back_to_the_boundary(case, start, confidence=self.settings.confidence)
        best, active = Nearest(case), torch.arange(len(case), device=start.device)
        with torch.no_grad():
            best.see(case, start, counts(case, case.view.forward(start), self.settings.confidence), active)
        unsolved = best.distance == torch.inf
        reach = torch.where(
            unsolved, (start - case.original).flatten(1).abs().amax(dim=1), best.distance.to(start.dtype)
        )
        too_small = torch.zeros_like(reach)
        for _ in range(self.settings.binary_search_steps):
            # The paper's 0.9 as long as that works, then half way to the τ that was too small.
            tau = torch.where(unsolved, reach, torch.maximum(0.9 * reach, (too_small + reach) / 2))
            x = torch.where(per_example(unsolved, start), start, best.point)
            self._climb(case.part(active), x[active], tau[active], best, active)
            failed = best.distance > _ALMOST * tau
            too_small = torch.where(failed & ~unsolved, torch.maximum(tau, too_small), too_small)
            unsolved = best.distance == torch.inf
            reach = torch.where(unsolved, 2 * reach, best.distance.to(reach.dtype))
            active = active[(unsolved | (too_small < 0.99 * reach))[active]]
            if len(active) == 0:
                break
        return best.point

    def _climb(
        self, case: Case[Weights], x: torch.Tensor, tau: torch.Tensor, best: Nearest, index: torch.Tensor
    ) -> None:
        """Climb the lead by Adam within τ from `x`; who is across is finished."""
        limit = per_example(tau, x)
        x = case.inside(case.original + (x - case.original).clamp(-limit, limit))
        mean, square = torch.zeros_like(x), torch.zeros_like(x)
        for step in range(self.settings.steps):
            slope, logits = case.gradient(x, case.lead)
            counting = counts(case, logits, self.settings.confidence)
            best.see(case, x, counting, index)
            rest = best.distance[index] > _ALMOST * tau
            if not rest.all():
                x, mean, square, slope, limit = x[rest], mean[rest], square[rest], slope[rest], limit[rest]
                tau, index, case = tau[rest], index[rest], case.part(rest)
            if len(x) == 0:
                return
            gradient = -torch.nan_to_num(slope)
            mean.lerp_(gradient, 0.1)
            square.lerp_(gradient.square(), 0.001)
            towards = mean / (1 - 0.9 ** (step + 1)) / (square / (1 - 0.999 ** (step + 1))).sqrt().clamp_min(1e-20)
            rate = self.settings.learning_rate * cosine_length(step, self.settings.steps)
            x = x - rate * limit * towards
            x = case.inside(case.original + (x - case.original).clamp(-limit, limit))
