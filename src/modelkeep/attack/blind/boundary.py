"""Boundary: walk along the decision boundary towards the original, by labels only (HopSkipJump; Chen et al. 2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch

from modelkeep.attack.blind.span import Span, span_of
from modelkeep.attack.blind.walk import Walk
from modelkeep.attack.case import Case, Target
from modelkeep.attack.frame import carry_out
from modelkeep.attack.result import Attacked
from modelkeep.core.access import Labels
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball


def boundary(
    model: Model,
    data: Data,
    *,
    norm: Literal["l2", "linf"] = "l2",
    queries: int = 2500,
    target: str | Target | None = None,
    mask: torch.Tensor | None = None,
    batch_size: int = 256,
    seed: int,
) -> Attacked:
    """Look for the smallest change of each example that changes the model's answer. It sees only the label.

    Starts at the nearest example of `data` that is answered as wanted, or at noise, and repeats HopSkipJump's three
    moves: by bisection to the boundary, its direction there from the labels of random points around, a step along it.

    Args:
        model: The model; only its labels are asked for.
        data: Examples with their true labels; they also serve each other as starts.
        norm: "l2" or "linf".
        queries: How many labels may be asked per example.
        target: The class that the answer should become; without it, any wrong answer will do.
        mask: True where the input may change; it must broadcast to the inputs' shape.
        batch_size: Examples that are run at once.
        seed: For the random points.
    """
    if norm not in ("l2", "linf"):
        raise bad_parameter("boundary", "norm", "'l2' or 'linf'", norm)
    return carry_out(
        model,
        data,
        [HopSkipJump(data, span_of(model, data), queries)],
        attack="boundary",
        ball=Ball(norm, None, model.bounds),
        target=target,
        mask=mask,
        batch_size=batch_size,
        seed=seed,
    )


@dataclass(frozen=True)
class HopSkipJump:
    """The inner loop, with at most `queries` labels per example. Starts are taken from `pool`, or from its `span`.

    The first estimate of a direction has `first` points; the k-th has √k times as many.
    """

    pool: Data = field(repr=False)
    span: Span = field(repr=False)
    queries: int = 2500
    first: int = 100
    tries: int = 20
    name: ClassVar[str] = "boundary"
    sees: ClassVar[type[Labels]] = Labels

    def __post_init__(self) -> None:
        if self.queries < 100:
            raise bad_parameter("boundary", "queries", "at least 100", self.queries)

    def __call__(self, case: Case[Labels]) -> torch.Tensor:
        """The nearest input found for each example, `(n, ...)`; the original where no start was found."""
        start, started, asked = self._start(case)
        if not started.any():
            return start
        walk = Walk(case.part(started), start[started], self.queries - asked)
        walk.to_boundary()
        number = 1
        while (points := walk.affordable(math.ceil(self.first * math.sqrt(number)))) > 0:
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
        for attempt in range(self.tries):
            left = case.part(wanting)
            if attempt < min(self.tries // 2, len(pool)):  # first the nearest that fit, then noise
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
