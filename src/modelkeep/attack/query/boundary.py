"""Boundary: walk along the decision boundary towards the original, by labels only (HopSkipJump; Chen2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from modelkeep.attack.base import Attack, norm_setting
from modelkeep.attack.case import Case, Search
from modelkeep.attack.query.span import Span, span_of
from modelkeep.attack.query.walk import Walk
from modelkeep.core.access import Labels
from modelkeep.core.data import Data
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.norms import AnyNorm

_FIRST_POINTS = 100
"""How many random points the first estimate of a direction takes; the k-th takes √k times as many (the paper's)."""
_TRIES = 20
"""How many starts are tried for an example: half of them other examples, half of them noise."""


@declare("attack", "boundary", access="labels", paper="Chen2020")
class Boundary(Attack):
    """Along the decision boundary, by its answers alone.

    Starts at the nearest example of the data that is answered as wanted, or at noise, and repeats HopSkipJump's three
    moves: by bisection to the boundary, its direction there from the labels of random points around, a step along it.
    """

    cheap: ClassVar[dict[str, Any]] = {"queries": 100}

    norm: AnyNorm = norm_setting("l2", "linf")
    queries: int = setting("How many labels may be asked per example.", default=2500, at_least=100)

    @property
    def title(self) -> str:
        """What results call it."""
        return "boundary"

    def searches(self, model: Model, data: Data) -> list[Search]:
        """HopSkipJump; the examples also serve each other as starts."""
        return [_HopSkipJump(self, data, span_of(model, data))]


@dataclass(frozen=True)
class _HopSkipJump:
    """The inner loop. Starts are taken from `pool`, or drawn from the `span` of values."""

    settings: Boundary
    pool: Data = field(repr=False)
    span: Span = field(repr=False)
    title: ClassVar[str] = "boundary"
    sees: ClassVar[type[Labels]] = Labels

    def search(self, case: Case[Labels], /) -> torch.Tensor:
        """The nearest input found for each example, `(n, ...)`; the original where no start was found."""
        start, started, asked = self._start(case)
        if not started.any():
            return start
        walk = Walk(case.part(started), start[started], self.settings.queries - asked)
        walk.to_boundary()
        number = 1
        while (points := walk.affordable(math.ceil(_FIRST_POINTS * math.sqrt(number)))) > 0:
            walk.jump(walk.direction(points), number)
            walk.to_boundary()
            number += 1
        start[started] = walk.safely_beyond()
        return start

    def _start(self, case: Case[Labels]) -> tuple[torch.Tensor, torch.Tensor, int]:
        """A start that is answered as wanted for each example, whether one was found, and the queries per example."""
        pool, labels = self.pool.x.to(case.original), self.pool.y.to(case.goal.device)
        low, high = self.span
        apart = torch.cdist(case.original.flatten(1), pool.flatten(1))
        fits = (labels == case.goal[:, None]) if case.targeted else (labels != case.goal[:, None])
        order = apart.masked_fill(~fits, torch.inf).argsort(dim=1)
        found, wanting = case.original.clone(), torch.ones(len(case), dtype=torch.bool, device=case.goal.device)
        for attempt in range(_TRIES):
            left = case.part(wanting)
            if attempt < min(_TRIES // 2, len(pool)):  # first the nearest that fit, then noise
                start = pool[order[wanting, attempt]]
            else:
                drawn = torch.rand(left.original.shape, generator=case.generator).to(case.original)
                start = low + (high - low) * drawn
            start = left.inside(start)
            won = left.answered(case.view.labels(start))
            at = torch.nonzero(wanting).flatten()[won]
            found[at], wanting[at] = start[won], False
            if not wanting.any():
                break
        return found, ~wanting, attempt + 1
