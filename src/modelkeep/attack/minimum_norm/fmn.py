"""FMN: find the boundary by growing and shrinking a ball, and climb the margin within it (Pintor2021)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch

from modelkeep.attack.base import Attack, norm_setting
from modelkeep.attack.case import Case
from modelkeep.attack.minimum_norm.boundary import Nearest
from modelkeep.core.access import Weights
from modelkeep.core.method import declare, setting
from modelkeep.core.norms import AnyNorm, Ball, per_example


@declare("attack", "fmn", access="weights", paper="Pintor2021")
class FMN(Attack):
    """The smallest change in any norm, fast."""

    cheap: ClassVar[dict[str, Any]] = {"steps": 4}

    norm: AnyNorm = norm_setting("l2", "linf", "l1", "l0")
    steps: int = setting("Gradient steps, whose length falls along a cosine.", default=100, at_least=1)
    step_size: float | None = setting(
        "The l2 length of the first step, which falls to a hundredth; "
        "without it, the width of the model's bounds, or 1 where it has none.",
        default=None,
        above=0,
    )
    gamma: float = setting(
        "The share by which the ball first shrinks where the answer is wrong, and grows where it is not.",
        default=0.05,
        above=0,
        below=1,
    )

    def search(self, case: Case[Weights], /) -> torch.Tensor:
        """The nearest input found for each example, `(n, ...)`; the original where there is none."""
        x, best = case.original, Nearest(case)
        width = 1.0 if case.ball.bounds is None else case.ball.bounds[1] - case.ball.bounds[0]
        first = self.step_size or width
        uphill = Ball("l2", None)
        radius = x.new_full((len(x),), 1.0 if case.ball.norm == "l0" else torch.inf)
        for step in range(self.steps):
            falling = (1 + math.cos(math.pi * step / self.steps)) / 2
            gamma = 1e-4 + (self.gamma - 1e-4) * falling
            gradient, logits = case.gradient(x, case.lead)
            if step == 0:
                case.health.see_gradient(gradient)
            gradient = torch.nan_to_num(gradient)
            won = case.reached(logits)
            best.see(case, x, won)
            nearest = best.distance.to(x.dtype)
            if case.ball.norm == "l0":
                radius = _whole(radius, nearest, won, gamma)
            else:
                # Until something is found, the ball reaches to the linearised boundary.
                distance = case.ball.distance(x, case.original).to(x.dtype)
                boundary = distance + case.lead(logits).abs() / _dual(gradient, case.ball.norm).clamp_min(1e-12)
                grown = torch.where(nearest.isfinite(), radius, boundary) * (1 + gamma)
                radius = torch.where(won, torch.minimum(radius * (1 - gamma), nearest), grown)
            size = first * (0.01 + 0.99 * falling)
            change = x + size * uphill.steepest(case.ball.unblocked(x, gradient)) - case.original
            x = case.inside(case.original + _shrunk(change, radius, case.ball.norm))
        return best.point


def _whole(radius: torch.Tensor, nearest: torch.Tensor, won: torch.Tensor, gamma: float) -> torch.Tensor:
    """The radius in l0 changes by at least one."""
    fewer = torch.minimum(torch.minimum(radius - 1, (radius * (1 - gamma)).floor()), nearest)
    more = torch.maximum(radius + 1, (radius * (1 + gamma)).floor())
    return torch.where(won, fewer, more).clamp_min(1)


def _dual(gradient: torch.Tensor, norm: AnyNorm) -> torch.Tensor:
    """The length of the gradient in the norm that goes with `norm`: how fast a linear function grows at best."""
    size = gradient.flatten(1).abs()
    if norm == "linf":
        return size.sum(dim=1)
    return size.square().sum(dim=1).sqrt() if norm == "l2" else size.amax(dim=1)


def _shrunk(change: torch.Tensor, radius: torch.Tensor, norm: AnyNorm) -> torch.Tensor:
    """The nearest change that is no longer than `radius: (n,)`."""
    flat, limit = change.flatten(1), radius[:, None]
    if norm == "linf":
        return torch.minimum(torch.maximum(flat, -limit), limit).view_as(change)
    if norm == "l2":
        length = flat.square().sum(dim=1, keepdim=True).sqrt().clamp_min(1e-12)
        return (flat * (limit / length).clamp_max(1)).view_as(change)
    if norm == "l1":
        # Soft thresholding, with the threshold by sorting (Duchi2008).
        sizes = flat.abs().sort(dim=1, descending=True).values
        thresholds = (sizes.cumsum(dim=1) - limit) / torch.arange(1, flat.shape[1] + 1, device=flat.device)
        last = (sizes > thresholds).sum(dim=1, keepdim=True).clamp_min(1) - 1
        threshold = thresholds.gather(1, last).clamp_min(0)
        return (flat.sign() * (flat.abs() - threshold).clamp_min(0)).view_as(change)
    # In l0, the largest changes: of pixels, whichever of their channels, or of the values of a table.
    sizes = change.abs().amax(dim=1, keepdim=True) if change.ndim == 4 else change.abs()
    rank = sizes.flatten(1).argsort(dim=1, descending=True).argsort(dim=1).view_as(sizes)
    return torch.where(rank < per_example(radius, change), change, 0.0)
