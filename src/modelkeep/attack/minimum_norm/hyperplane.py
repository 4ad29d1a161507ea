"""The nearest point of a box on a hyperplane, in l∞, l2 and l1: what FAB does at every step (Croce2020)."""

from __future__ import annotations

import torch

from modelkeep.core.norms import AnyNorm


def onto_hyperplane(
    x: torch.Tensor, normal: torch.Tensor, missing: torch.Tensor, norm: AnyNorm, bounds: tuple[float, float] | None
) -> torch.Tensor:
    """For each row the smallest change `d` of `x: (n, k)` with `normal · d = missing` and `x + d` within the bounds.

    Where the box does not meet the hyperplane, `d` goes as near to it as the box allows.

    >>> x, normal = torch.tensor([[0.5, 0.5]]), torch.tensor([[2.0, 1.0]])
    >>> for norm in ("linf", "l2", "l1"):
    ...     print(onto_hyperplane(x, normal, torch.tensor([1.2]), norm, (0.0, 1.0)))
    tensor([[0.4000, 0.4000]])
    tensor([[0.4800, 0.2400]])
    tensor([[0.5000, 0.2000]])
    """
    largest = normal.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(normal.dtype).tiny)
    # Turned so that every value moves by `moved ≥ 0` in the direction that helps, scaled so that nothing underflows.
    way = normal.sign() * missing.sign()[:, None]
    weight, missing = normal.abs() / largest, missing.abs()[:, None] / largest
    if bounds is None:
        room = missing.expand_as(weight)  # no solution moves a value further than the one of the largest weight alone
    else:
        room = torch.where(way > 0, bounds[1] - x, x - bounds[0]).clamp_min(0)
    usable = weight > torch.finfo(weight.dtype).eps  # what hardly counts is left where it is
    weight, room = torch.where(usable, weight, 1.0), torch.where(usable, room, 0.0)
    moved = _greedy(weight, room, missing) if norm == "l1" else _level(weight, room, missing, norm)
    return way * moved


def _level(weight: torch.Tensor, room: torch.Tensor, missing: torch.Tensor, norm: AnyNorm) -> torch.Tensor:
    """min(room, λ · speed) with Σ weight · moved = missing: all move alike in l∞, in proportion to the weight in l2.

    The sum is piecewise linear in λ with a kink where a value meets its bound, so sorting the kinks gives λ.
    """
    speed = torch.ones_like(weight) if norm == "linf" else weight
    kinks, order = (room / speed).sort(dim=1)
    # Up to kink k, those with an earlier kink stand at their bounds, and the others move on.
    moving = (weight * speed).gather(1, order).flip(1).cumsum(dim=1).flip(1)
    stopped = (weight * room).gather(1, order)
    stopped = stopped.cumsum(dim=1) - stopped
    k = (stopped + kinks * moving < missing).sum(dim=1, keepdim=True).clamp_max(weight.shape[1] - 1)
    level = (missing - stopped.gather(1, k)) / moving.gather(1, k)
    return torch.minimum(room, level.clamp_min(0) * speed)


def _greedy(weight: torch.Tensor, room: torch.Tensor, missing: torch.Tensor) -> torch.Tensor:
    """In l1, the values with the largest weights move first, as far as they can."""
    falling, order = weight.sort(dim=1, descending=True)
    can = room.gather(1, order)
    rest = (missing - ((falling * can).cumsum(dim=1) - falling * can)).clamp_min(0)
    return torch.zeros_like(weight).scatter(1, order, torch.minimum(can, rest / falling))
