"""Carlini and Wagner's search in l2: |δ|² + c · max(0, −lead) by Adam, and a binary search over each example's c."""

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


@dataclass(frozen=True)
class L2Search:
    """The inner loop. Without an initial constant, the first c follows from the slope of each example's boundary."""

    settings: CW
    title: ClassVar[str] = "C&W L2"
    sees: ClassVar[type[Weights]] = Weights

    def search(self, case: Case[Weights], /) -> torch.Tensor:
        """The nearest point that was seen to count for each example, `(n, ...)`."""
        # The nearest of the boundaries of all classes, and not that of the likeliest one.
        start, slope = across(case, DeepFool(steps=1).walk(case), confidence=self.settings.confidence)
        start = back_to_the_boundary(case, start, confidence=self.settings.confidence, halvings=4)
        return self.nearest(case, start, slope).point

    def nearest(self, case: Case[Weights], start: torch.Tensor, slope: torch.Tensor) -> Nearest:
        """Search from `start`, where the lead has this `slope`."""
        best, everyone = Nearest(case), torch.arange(len(case), device=start.device)
        with torch.no_grad():
            best.see(case, start, counts(case, case.view.forward(start), self.settings.confidence), everyone)
        length, steepness = _lengths(start - case.original), _lengths(slope)
        # At the nearest point of the boundary 2 δ = c · slope. A c above that one pulls across, and not much further.
        constant = torch.where(steepness > 0, 3 * length / steepness.clamp_min(1e-30), 1.0)
        given = self.settings.initial_constant is not None
        if self.settings.initial_constant is not None:
            constant = torch.full_like(constant, self.settings.initial_constant)
        low, high = torch.zeros_like(constant), torch.full_like(constant, torch.inf)
        active = everyone
        for number in range(self.settings.binary_search_steps):
            before = best.distance[active]
            solved = before < torch.inf
            x = torch.where(per_example(solved, start), best.point[active], start[active])
            held = self._descend(case.part(active), x, constant[active], best, active, again=number > 0)
            high[active] = torch.where(held, constant[active], high[active])
            low[active] = torch.where(held, low[active], constant[active])
            smaller = torch.where(low > 0, (low + high) / 2, high / (10 if given else 2))
            constant = torch.where(high.isinf(), 10 * constant, smaller)
            # What another c did not bring nearer by a hundredth will not come nearer by the next, if it is not far off.
            near = (high < torch.inf) & ((low > 0) | (not given))
            active = active[~(solved & near[active] & (best.distance[active] > 0.99 * before))]
            if len(active) == 0:
                break
        return best

    def _descend(
        self,
        case: Case[Weights],
        x: torch.Tensor,
        constant: torch.Tensor,
        best: Nearest,
        index: torch.Tensor,
        *,
        again: bool,
    ) -> torch.Tensor:
        """One descent by Adam from `x` at fixed constants; whether they held the examples across `(n,)`.

        When it starts `again`, from what was found before, the steps are smaller, and an example is given up when the
        first quarter of them has not brought it nearer.
        """
        held = torch.zeros_like(constant, dtype=torch.bool)
        # In units of the change itself, so that it fits pictures and tables, weak models and strong ones.
        movable = x[0].numel() if case.allowed is None else case.allowed.flatten(1).sum(dim=1).clamp_min(1)
        size = per_example(_lengths(x - case.original) / (movable**0.5), x) * (0.3 if again else 1.0)
        mean, square = torch.zeros_like(x), torch.zeros_like(x)
        before, going = best.distance[index], torch.arange(len(x), device=x.device)
        for step in range(self.settings.steps):
            slope, logits = case.gradient(x, case.lead)
            counting = counts(case, logits, self.settings.confidence)
            best.see(case, x, counting, index)
            if step >= self.settings.steps // 8:  # before, it may still be where an earlier constant brought it
                held[going] |= counting
            pull = per_example(torch.where(counting, 0, constant), x)
            gradient = 2 * (x - case.original) - pull * torch.nan_to_num(slope)
            mean.lerp_(gradient, 0.1)
            square.lerp_(gradient.square(), 0.001)
            towards = mean / (1 - 0.9 ** (step + 1)) / (square / (1 - 0.999 ** (step + 1))).sqrt().clamp_min(1e-20)
            # The steps become small at the end: what swings around the boundary comes to rest on it.
            rate = self.settings.learning_rate * cosine_length(step, self.settings.steps)
            x = case.inside(x - rate * size * towards)
            if again and step == self.settings.steps // 4:
                rest = (before == torch.inf) | (best.distance[index] < 0.999 * before)
                x, mean, square, size, constant = x[rest], mean[rest], square[rest], size[rest], constant[rest]
                index, going, case = index[rest], going[rest], case.part(rest)
                if len(x) == 0:
                    break
        return held


def _lengths(x: torch.Tensor) -> torch.Tensor:
    return x.flatten(1).square().sum(dim=1).sqrt()
