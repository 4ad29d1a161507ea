"""Carlini and Wagner's search in l0: change everything by the l2 search, then hold fixed what matters least."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import torch

from modelkeep.attack.case import Case
from modelkeep.attack.minimum_norm.boundary import across
from modelkeep.attack.minimum_norm.cw_l2 import L2Search
from modelkeep.attack.minimum_norm.deepfool import DeepFool
from modelkeep.core.access import Weights
from modelkeep.core.norms import Ball

if TYPE_CHECKING:
    from modelkeep.attack.minimum_norm.cw import CW

_FIRST_SHARE = 0.3
"""The share of what was changed that is first given back at once; where that fails, half of it, and so on."""


@dataclass(frozen=True)
class L0Search:
    """The inner loop: what the l2 search changed is given back, the least important part first."""

    settings: CW
    title: ClassVar[str] = "C&W L0"
    sees: ClassVar[type[Weights]] = Weights

    def search(self, case: Case[Weights], /) -> torch.Tensor:
        """The input with the fewest changes that was seen to count, `(n, ...)`."""
        case = replace(case, ball=Ball("l2", None, case.ball.bounds))
        everywhere = torch.ones_like(case.original, dtype=torch.bool)
        allowed = everywhere if case.allowed is None else case.allowed
        point, found = self._with_changes_in(case, allowed, DeepFool(steps=1).walk(case))
        share = torch.where(found, _FIRST_SHARE, 0.0)
        active = torch.nonzero(found).flatten()
        while len(active):
            part = case.part(active)
            kept, dropped, left = self._least_important(part, point[active], share[active])
            tried, found = self._with_changes_in(part, kept, point[active])
            point[active[found]] = tried[found]
            share[active[~found]] /= 2
            # With one position at a time there is nothing smaller to try; and a random model may count with none.
            active = active[torch.where(found, left > 0, dropped > 1)]
        return point

    def _with_changes_in(
        self, case: Case[Weights], allowed: torch.Tensor, start: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What the L2 search finds when only `allowed` values may change, and whether that counts."""
        case = replace(case, allowed=allowed)
        start, slope = across(case, torch.where(allowed, start, case.original), confidence=self.settings.confidence)
        best = L2Search(self.settings).nearest(case, start, slope)
        return best.point, best.distance < torch.inf

    def _least_important(
        self, case: Case[Weights], point: torch.Tensor, share: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Where changes stay allowed `(n, ...)`, without the `share` that brings least; how many go, how many stay."""
        slope, _ = case.gradient(point, case.lead)
        brought = (torch.nan_to_num(slope) * (point - case.original)).abs()
        changed = point != case.original
        if point.ndim == 4:  # a pixel is changed as soon as one of its channels is
            brought, changed = brought.sum(dim=1, keepdim=True), changed.any(dim=1, keepdim=True)
        count = changed.flatten(1).sum(dim=1)
        dropped = (share * count).ceil().long().clamp_min(1)
        ranked = brought.flatten(1).masked_fill(~changed.flatten(1), -1).argsort(dim=1, descending=True)
        rank = torch.empty_like(ranked)
        rank.scatter_(1, ranked, torch.arange(ranked.shape[1], device=rank.device).expand_as(ranked).contiguous())
        left = (count - dropped).clamp_min(0)
        kept = (rank < left[:, None]).view(changed.shape).expand(point.shape)
        return (kept if case.allowed is None else kept & case.allowed), dropped, left
