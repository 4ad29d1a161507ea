"""Ball: the set of inputs that an attacker may choose from, and the small steps and projections inside it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from modelkeep.errors import bad_parameter

Norm = Literal["linf", "l2"]
NORMS = ("linf", "l2")


@dataclass(frozen=True)
class Ball:
    """All inputs within `radius` of the original in the norm, and within the model's `bounds` (None: none)."""

    norm: Norm
    radius: float
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise bad_parameter("Ball", "norm", f"one of {', '.join(map(repr, NORMS))}", self.norm)
        if not 0 < self.radius < math.inf:
            raise bad_parameter("Ball", "radius", "a number above 0", self.radius)

    def random_point(self, original: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """A point drawn uniformly from the ball around each original, then put within the bounds."""
        shape, n = original.shape, len(original)
        if self.norm == "linf":
            offset = self.radius * (2 * torch.rand(shape, generator=generator) - 1)
        else:
            direction = torch.randn(shape, generator=generator)
            length = torch.rand(n, generator=generator) ** (shape.numel() and n / shape.numel())
            offset = direction * per_example(self.radius * length / _lengths(direction).clamp_min(1e-12), direction)
        return self.project(original + offset.to(original), original)

    def steepest(self, gradient: torch.Tensor) -> torch.Tensor:
        """The direction of unit norm in which a linear function with this gradient grows fastest."""
        if self.norm == "linf":
            return gradient.sign()
        # Lengths in units of the largest entry: a gradient of 1e-30 still has a direction in float32.
        largest = gradient.flatten(1).abs().amax(dim=1)
        scaled = gradient / per_example(largest.clamp_min(torch.finfo(gradient.dtype).tiny), gradient)
        return scaled / per_example(_lengths(scaled).clamp_min(1e-12), scaled)

    def project(self, moved: torch.Tensor, original: torch.Tensor) -> torch.Tensor:
        """The nearest inputs in the ball, up to rounding; `exactly` removes the rounding."""
        if self.norm == "linf":
            moved = torch.minimum(torch.maximum(moved, original - self.radius), original + self.radius)
        else:
            offset = moved - original
            moved = original + offset * per_example(
                (self.radius / _lengths(offset).clamp_min(1e-12)).clamp_max(1), offset
            )
        return moved if self.bounds is None else moved.clamp(*self.bounds)

    def exactly(self, moved: torch.Tensor, original: torch.Tensor) -> torch.Tensor:
        """`moved`, drawn inwards by the rounding of its own type, so that `distance` never exceeds the radius.

        Nothing is drawn further than a rounding: where the ball is wide enough to hold another number than the
        original, a move stays a move.
        """
        exact = original.double()
        if self.norm == "linf":
            low, high = (self._edge(original, sign * self.radius) for sign in (-1, 1))
            return torch.minimum(torch.maximum(moved, low), high)
        # Rounding the sum of original and offset moves it by at most half an epsilon of its own length.
        distance = self.distance(moved, original)
        rounding = torch.finfo(moved.dtype).eps * (_lengths(exact) + self.radius)
        shrink = torch.where(distance > self.radius, (self.radius - rounding).clamp_min(0) / distance, 1.0)
        return torch.where(
            per_example(shrink < 1, moved),
            (exact + (moved.double() - exact) * per_example(shrink, moved)).to(moved.dtype),
            moved,
        )

    def _edge(self, original: torch.Tensor, offset: float) -> torch.Tensor:
        """The last number of this type on the way from `original` to `original + offset` that is within the radius."""
        edge = (original.double() + offset).to(original.dtype)
        beyond = (edge.double() - original.double()).abs() > self.radius
        return torch.where(beyond, torch.nextafter(edge, original), edge)

    def distance(self, moved: torch.Tensor, original: torch.Tensor) -> torch.Tensor:
        """The norm of the difference `(n,)`, in float64."""
        offset = (moved.double() - original.double()).flatten(1)
        return offset.abs().amax(dim=1) if self.norm == "linf" else _lengths(offset)


def per_example(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """`values: (n,)` shaped so that they multiply `like: (n, ...)` example by example."""
    return values.view(-1, *(1,) * (like.ndim - 1))


def _lengths(x: torch.Tensor) -> torch.Tensor:
    return x.flatten(1).square().sum(dim=1).sqrt()
