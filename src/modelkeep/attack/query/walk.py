"""Walk: points at the decision boundary, and the moves of HopSkipJump along it (Chen2020, algorithm 2)."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from modelkeep.attack.case import Case
from modelkeep.core.access import Labels
from modelkeep.core.norms import per_example

# Points around the boundary are made and asked in pieces of at most this number of values (64 MB).
_VALUES_AT_ONCE = 2**24
_MOST_HALVINGS = 12


class Walk:
    """Where each example is by now (`x`, answered as wanted), its nearest point so far, and the queries it has left."""

    def __init__(self, case: Case[Labels], start: torch.Tensor, queries: int) -> None:
        self.case, self.x, self.left = case, start, queries
        self.nearest = start
        dimensions = start[0].numel()
        # The paper's tolerance of the bisection, θ = d^-3/2 in l2 and d^-2 in linf, for images; tables need a floor.
        tolerance = min(dimensions ** (-1.5 if case.ball.norm == "l2" else -2.0), 1e-3)
        self.halvings = math.ceil(-math.log2(tolerance))
        self.reach = min(1 / dimensions, 0.1)  # of the distance: where the boundary is probed (the paper's δ)

    def affordable(self, points: int) -> int:
        """How many of the points a round may ask about, so that its other moves and the last one can be paid too."""
        rest = self.left - _MOST_HALVINGS - self.halvings - 1
        return min(points, rest) if rest >= 10 else 0

    def distance(self) -> torch.Tensor:
        """How far `x` is from the originals, `(n,)`."""
        return self.case.ball.distance(self.x, self.case.original).to(self.x.dtype)

    def to_boundary(self) -> None:
        """Bisection between the original and `x`; ends on the side of the wanted answer."""
        distance = self.distance()
        low, high = torch.zeros_like(distance), torch.ones_like(distance)
        for _ in range(self.halvings):
            middle = (low + high) / 2
            won = self._answered(self._towards_original(middle, distance))
            low, high = torch.where(won, low, middle), torch.where(won, middle, high)
        self.x = self._towards_original(high, distance)
        nearest = self.case.ball.distance(self.nearest, self.case.original)
        closer = self.distance() < nearest
        self.nearest = torch.where(per_example(closer, self.x), self.x, self.nearest)

    def direction(self, points: int) -> torch.Tensor:
        """The direction in which the wanted answer lies, from the labels of random points around `x`.

        The mean of (φ − φ̄) u over random unit vectors u, with φ = ±1 for a wanted answer or not (equation 16).
        """
        x, case = self.x, self.case
        reach = self.reach * self.distance().clamp_min(1e-12)
        sums = [torch.zeros_like(x), torch.zeros_like(x)]  # of φu and of u
        total = x.new_zeros(len(x))
        self.left -= points
        at_once = max(1, _VALUES_AT_ONCE // x.numel())
        for count in (min(at_once, points - i) for i in range(0, points, at_once)):
            drawn = torch.randn(len(x), count, *x.shape[1:], generator=case.generator).to(x)
            if case.allowed is not None:
                drawn = drawn * case.allowed[:, None]
            drawn = drawn / drawn.flatten(2).norm(dim=2).clamp_min(1e-12).view(len(x), count, *(1,) * (x.ndim - 1))
            around = x[:, None] + drawn * per_example(reach, drawn)
            around = around if case.ball.bounds is None else around.clamp(*case.ball.bounds)
            moved = (around - x[:, None]) / per_example(reach, drawn)  # what the bounds have left of it
            each = replace(case, goal=case.goal.repeat_interleave(count))
            won = each.answered(case.view.labels(around.flatten(0, 1))).view(len(x), count)
            sign = torch.where(won, 1.0, -1.0).to(x)
            sums[0] += (moved * sign.view(len(x), count, *(1,) * (x.ndim - 1))).sum(dim=1)
            sums[1] += moved.sum(dim=1)
            total += sign.sum(dim=1)
        mean = total / points
        one_sided = per_example(mean.abs() == 1, x)
        found = torch.where(one_sided, sums[0], sums[0] - per_example(mean, x) * sums[1])
        return case.ball.steepest(found)

    def jump(self, direction: torch.Tensor, number: int) -> None:
        """The largest of distance/√number, half of it, a quarter … that keeps the wanted answer; else none."""
        size, waiting = self.distance() / math.sqrt(number), torch.arange(len(self.x), device=self.x.device)
        for _ in range(_MOST_HALVINGS):
            case = self.case.part(waiting)
            moved = case.inside(self.x[waiting] + per_example(size[waiting], self.x) * direction[waiting])
            won = case.answered(case.view.labels(moved))
            self.left -= 1
            self.x = self.x.index_copy(0, waiting[won], moved[won])
            waiting = waiting[~won]
            size = size / 2
            if len(waiting) == 0:
                break

    def safely_beyond(self) -> torch.Tensor:
        """The nearest points, a thousandth further out where they hold: another batch rounds otherwise than this."""
        original = self.case.original
        further = self.case.inside(original + 1.001 * (self.nearest - original))
        return torch.where(per_example(self._answered(further), further), further, self.nearest)

    def _towards_original(self, share: torch.Tensor, distance: torch.Tensor) -> torch.Tensor:
        """`x` brought to `share` of its distance: on the straight line in l2, by clipping in linf."""
        original, offset = self.case.original, self.x - self.case.original
        if self.case.ball.norm == "l2":
            return original + per_example(share, offset) * offset
        most = per_example(share * distance, offset)
        return original + torch.minimum(torch.maximum(offset, -most), most)

    def _answered(self, x: torch.Tensor) -> torch.Tensor:
        self.left -= 1
        return self.case.answered(self.case.view.labels(x))
