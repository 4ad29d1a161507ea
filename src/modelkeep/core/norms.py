"""Ball: the set of inputs that an attacker may choose from, and the small steps and projections inside it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from modelkeep.core.errors import InputError, bad_parameter

Norm = Literal["linf", "l2", "l1"]
AnyNorm = Literal["linf", "l2", "l1", "l0"]
NORMS = ("linf", "l2", "l1", "l0")


@dataclass(frozen=True)
class Ball:
    """All inputs within `radius` of the original in the norm, and within the model's `bounds` (None: none).

    Without a radius everything within the bounds is allowed, and the norm only measures. "l0" counts what was
    changed: pixels of an image, whichever of their channels, or values of a table.
    """

    norm: AnyNorm
    radius: float | None
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise bad_parameter("Ball", "norm", f"one of {', '.join(map(repr, NORMS))}", self.norm)
        if self.radius is not None and not 0 < self.radius < math.inf:
            raise bad_parameter("Ball", "radius", "a number above 0", self.radius)

    @property
    def reach(self) -> float:
        """The radius, for those who cannot do without one."""
        if self.radius is None:
            raise InputError(f"This needs a radius: how far, in {self.norm}, an input may be moved.")
        return self.radius

    def random_point(
        self, original: torch.Tensor, generator: torch.Generator, allowed: torch.Tensor | None = None
    ) -> torch.Tensor:
        """A point drawn uniformly from the ball around each original, then put within the bounds.

        Where not `allowed`, it is the original.
        """
        if self.norm == "l0":
            raise InputError("No point is drawn from an l0 ball: it has no volume. Start at the original instead.")
        n, dimensions = len(original), original[0].numel()
        # One uniform number per value: how examples are divided into batches does not change who gets which start.
        more = {"linf": 0, "l2": 2, "l1": 1}[self.norm]
        drawn = torch.rand(n, dimensions + more, generator=generator, device=generator.device)
        signed = (2 * drawn - 1).clamp(-1 + 2**-24, 1 - 2**-24)
        if self.norm == "l2":
            # A point on the sphere in d + 2 dimensions, without two of them, is uniform in the ball of d.
            signed = signed.erfinv()
            signed = signed / signed.norm(dim=1, keepdim=True)
        elif self.norm == "l1":
            # d + 1 exponentials over their sum are uniform on a simplex; without one of them, with signs, in the ball.
            signed = -signed.sign() * torch.log1p(-signed.abs())
            signed = signed / signed.abs().sum(dim=1, keepdim=True)
        offset = (self.reach * signed[:, :dimensions]).view(original.shape)
        offset = offset.to(original)
        return self.project(original + (offset if allowed is None else offset * allowed), original)

    def steepest(self, gradient: torch.Tensor) -> torch.Tensor:
        """The direction of unit norm in which a linear function with this gradient grows fastest."""
        if self.norm == "linf":
            return gradient.sign()
        if self.norm == "l2":
            # Lengths in units of the largest entry: a gradient of 1e-30 still has a direction in float32.
            largest = gradient.flatten(1).abs().amax(dim=1)
            scaled = gradient / per_example(largest.clamp_min(torch.finfo(gradient.dtype).tiny), gradient)
            return scaled / per_example(_lengths(scaled).clamp_min(1e-12), scaled)
        return _largest(gradient, 1)

    def step(self, x: torch.Tensor, gradient: torch.Tensor, size: float, original: torch.Tensor) -> torch.Tensor:
        """`x` moved by `size` uphill, and back into the ball."""
        if self.norm in ("l1", "l0"):
            gradient = self.unblocked(x, gradient)
        if self.norm == "l1":
            # Not the single steepest value but the top hundredth: as far in length, and far fewer steps.
            direction = _largest(gradient, max(1, math.ceil(0.01 * gradient[0].numel())))
        else:
            direction = self.steepest(gradient)
        return self.project(torch.add(x, direction, alpha=size), original)

    def unblocked(self, x: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """The gradient, zero where a value is at its bound and cannot go on.

        Where a step changes few values, one that is spent on such a value is lost (Tramèr & Boneh 2019).
        """
        if self.bounds is None:
            return gradient
        low, high = self.bounds
        return gradient.masked_fill(((x <= low) & (gradient < 0)) | ((x >= high) & (gradient > 0)), 0)

    def project(self, moved: torch.Tensor, original: torch.Tensor) -> torch.Tensor:
        """The nearest inputs in the ball, up to rounding; `exactly` removes the rounding."""
        if self.radius is None:
            pass
        elif self.norm == "linf":
            moved = torch.clamp(moved, original - self.radius, original + self.radius)
        elif self.norm == "l2":
            offset = moved - original
            moved = original + offset * per_example(
                (self.radius / _lengths(offset).clamp_min(1e-12)).clamp_max(1), offset
            )
        elif self.norm == "l1":
            moved = original + self._onto_l1(moved - original, original, self.radius)
        else:
            size = _positions(moved - original)
            kept = torch.zeros_like(size, dtype=torch.bool)
            kept.scatter_(1, size.topk(min(int(self.radius), size.shape[1]), dim=1).indices, True)
            shape = (len(moved), 1, *moved.shape[2:]) if moved.ndim == 4 else moved.shape
            moved = torch.where(kept.view(shape), moved, original)
        return moved if self.bounds is None else moved.clamp(*self.bounds)

    def _onto_l1(self, offset: torch.Tensor, original: torch.Tensor, radius: float) -> torch.Tensor:
        """The nearest offsets of l1 length at most `radius` that keep `original` within the bounds.

        Each size is cut by one threshold per example, to no less than 0 and no more than the room up to its bound. To
        cut first and put into the bounds afterwards would waste the length that is lost there (Croce2021).
        """
        size, room = offset.flatten(1).abs(), offset.new_tensor(torch.inf)
        if self.bounds is not None:
            low, high = self.bounds
            room = torch.where(offset > 0, high - original, original - low).flatten(1)
        threshold = floor = size.new_zeros(len(size), 1)
        ceiling = size.amax(dim=1, keepdim=True)
        for _ in range(100):  # ten are enough, but NaN would never be done
            kept = torch.minimum((size - threshold).clamp_min(0), room)
            excess = kept.sum(dim=1, keepdim=True) - radius
            floor, ceiling = torch.where(excess > 0, threshold, floor), torch.where(excess < 0, threshold, ceiling)
            # The length is piecewise linear in the threshold: Newton's steps end in a few, where they stay between.
            slope = ((kept > 0) & (kept < room)).sum(dim=1, keepdim=True)
            better = threshold + excess / slope.clamp_min(1)
            better = torch.where((floor < better) & (better < ceiling), better, (floor + ceiling) / 2)
            done = (excess.abs() <= 4 * torch.finfo(size.dtype).eps * radius) | (better <= floor) | (better >= ceiling)
            if done.all():
                break
            threshold = torch.where(done, threshold, better)
        return (offset.flatten(1).sign() * kept).view_as(offset)

    def exactly(self, moved: torch.Tensor, original: torch.Tensor) -> torch.Tensor:
        """`moved`, drawn inwards by the rounding of its own type, so that `distance` never exceeds the radius.

        Nothing is drawn further than a rounding: where the ball is wide enough to hold another number than the
        original, a move stays a move.
        """
        if self.radius is None or self.norm == "l0":
            return moved
        exact = original.double()
        if self.norm == "linf":
            low, high = (self._edge(original, sign * self.radius) for sign in (-1, 1))
            return torch.minimum(torch.maximum(moved, low), high)
        # Rounding the sum of original and offset moves it by at most half an epsilon of its own length.
        distance = self.distance(moved, original)
        size = _lengths(exact) if self.norm == "l2" else exact.flatten(1).abs().sum(dim=1)
        rounding = torch.finfo(moved.dtype).eps * (size + self.radius)
        shrink = torch.where(distance > self.radius, (self.radius - rounding).clamp_min(0) / distance, 1.0)
        return torch.where(
            per_example(shrink < 1, moved),
            (exact + (moved.double() - exact) * per_example(shrink, moved)).to(moved.dtype),
            moved,
        )

    def _edge(self, original: torch.Tensor, offset: float) -> torch.Tensor:
        """The last number of this type on the way from `original` to `original + offset` that is within the radius."""
        edge = (original.double() + offset).to(original.dtype)
        beyond = (edge.double() - original.double()).abs() > abs(offset)
        return torch.where(beyond, torch.nextafter(edge, original), edge)

    def distance(self, moved: torch.Tensor, original: torch.Tensor) -> torch.Tensor:
        """The norm of the difference `(n,)`, in float64."""
        offset = moved.double() - original.double()
        if self.norm == "linf":
            return offset.flatten(1).abs().amax(dim=1)
        if self.norm == "l2":
            return _lengths(offset)
        if self.norm == "l1":
            return offset.flatten(1).abs().sum(dim=1)
        return (_positions(offset) > 0).sum(dim=1).double()


def per_example(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """`values: (n,)` shaped so that they multiply `like: (n, ...)` example by example."""
    return values.view(-1, *(1,) * (like.ndim - 1))


def _lengths(x: torch.Tensor) -> torch.Tensor:
    return x.flatten(1).square().sum(dim=1).sqrt()


def _positions(offset: torch.Tensor) -> torch.Tensor:
    """The largest change at each pixel of images, at each value of anything else: `(n, positions)`."""
    return (offset.abs().amax(dim=1) if offset.ndim == 4 else offset.abs()).flatten(1)


def _largest(gradient: torch.Tensor, count: int) -> torch.Tensor:
    """The signs of the `count` largest entries of each example over their number; zero elsewhere."""
    flat = gradient.flatten(1)
    top = flat.abs().topk(count, dim=1).indices
    return torch.zeros_like(flat).scatter_(1, top, flat.gather(1, top).sign() / count).view_as(gradient)
