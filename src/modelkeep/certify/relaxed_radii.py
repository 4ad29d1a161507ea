"""Radii by intervals and by linear relaxation: bounds of the network around one input, beside those of all of space.

A Lipschitz constant holds everywhere, and so must pay for the steepest place there is. What the network can do in a
small ball around one input is often far less, above all in ℓ∞ and ℓ1, where the constants of layers multiply badly. At
a radius ε the loss of each margin is the least of three: of the constants, of intervals, and of linear bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from modelkeep.certify.constants import Lipschitz
from modelkeep.certify.guarantees import Guarantee
from modelkeep.certify.interpreter import Tensors, run
from modelkeep.certify.intervals import Interval, propagate
from modelkeep.certify.linear_bounds import LinearBounds
from modelkeep.certify.operations import Operation

Proof = Literal["lipschitz", "intervals", "linear relaxation"]
# Halvings of the logarithm of the radius: 3 % of a radius that lies within a factor of 1,000 of its largest value.
_HALVINGS = 8
_LEAST_SHARE = 1e-3
_DUAL = {"l2": 2.0, "linf": 1.0, "l1": torch.inf}
# The bounds are computed in float64, which rounds 2e9 times more finely than float32: this is a thousand times that.
_OWN_ROUNDING = 1e-6


@dataclass(frozen=True)
class Around:
    """Some inputs `x: (n, ...)` in float64, with their exact logits `(n, m)` and the rounding there `(n, m, m)`."""

    operations: Sequence[Operation]
    tensors: Tensors
    bounds: Lipschitz
    guarantee: Guarantee
    x: torch.Tensor
    logits: torch.Tensor
    rounding: torch.Tensor

    def costs(self, radius: torch.Tensor, *, linear: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """What each margin may lose within `radius: (n,)`, `(n, m, m)`: the least that is shown of it.

        With and without the rounding of the network's own pass. With `linear` also linear bounds are asked.
        """
        n, m = self.logits.shape
        reach = radius[:, None, None]
        order = self.logits.argsort(dim=1, descending=True, stable=True)[:, : min(self.guarantee.largest, m)]
        index = order[:, :, None].expand(-1, -1, m)
        eye = torch.eye(m, dtype=self.logits.dtype)
        rows = eye[order][:, :, None] - eye  # f_j - f_i for the classes j that may be on top
        least = self._least(radius, rows.flatten(1, 2), linear).view(n, -1, m)
        # In the network as it is computed, a margin at the other end is off by its rounding there.
        apart = (self.rounding + reach * (self.bounds.rate - self.bounds.margins)).gather(1, index)
        lost = self.logits.gather(1, order)[:, :, None] - self.logits[:, None] - least + _OWN_ROUNDING * apart
        exact = (reach * self.bounds.margins).expand(n, m, m)
        rounded = reach * self.bounds.rate + self.rounding
        return (
            rounded.scatter(1, index, torch.minimum(rounded.gather(1, index), lost + apart)),
            exact.scatter(1, index, torch.minimum(exact.gather(1, index), lost)),
        )

    def holds(self, radius: torch.Tensor, *, linear: bool) -> torch.Tensor:
        """Whether the guarantee is shown within the radius, `(n,)`."""
        return self.guarantee.margin(self.logits, self.costs(radius, linear=linear)[0]) > 0

    def _least(self, radius: torch.Tensor, rows: torch.Tensor, linear: bool) -> torch.Tensor:
        last = self.operations[-1].name
        if linear:
            found = LinearBounds(self.operations, self.tensors, self.bounds.norm, self.x, radius)
            return torch.maximum(found.at_least(last, rows), found.by_intervals(last, rows))
        each = radius.reshape(-1, *(1,) * (self.x.ndim - 1))
        known = {self.operations[0].name: Interval(self.x - each, self.x + each)}
        for operation in self.operations[1:]:
            known[operation.name] = propagate(operation, [known[name] for name in operation.inputs], self.tensors)
        low, high = known[last].low[:, None], known[last].high[:, None]
        found_low: torch.Tensor = (rows.clamp(min=0) * low + rows.clamp(max=0) * high).sum(dim=2)
        return found_low - 1e-9 * (rows.abs() * low.abs().maximum(high.abs())).sum(dim=2)


def relaxed_radii(around: Around, radii: torch.Tensor) -> tuple[torch.Tensor, list[Proof]]:
    """Radii that are at least the given ones `(n,)` of the Lipschitz constants, and which bounds they come from."""
    farthest = _farthest(around)
    by_intervals = _search(lambda radius: around.holds(radius, linear=False), radii, farthest)
    found = _search(lambda radius: around.holds(radius, linear=True), by_intervals, farthest)
    proofs: list[Proof] = []
    for own, boxes, best in zip(radii.tolist(), by_intervals.tolist(), found.tolist(), strict=True):
        longer: Proof = "intervals" if boxes > own else "lipschitz"
        proofs.append("linear relaxation" if best > boxes else longer)
    return found, proofs


def _search(holds: Callable[[torch.Tensor], torch.Tensor], known: torch.Tensor, farthest: torch.Tensor) -> torch.Tensor:
    """The largest radius that was seen to hold, `known` or farther: halving the way to the farthest."""
    found, low = known, torch.maximum(known.clamp(max=1e300), farthest * _LEAST_SHARE)
    high = torch.maximum(farthest, low)
    for _ in range(_HALVINGS):
        middle = (low * high).sqrt()
        shown = holds(middle) & (middle > found)
        found = torch.where(shown, middle, found)
        low, high = torch.where(shown, middle, low), torch.where(shown, high, middle)
    return found


def _farthest(around: Around) -> torch.Tensor:
    """Where the predicted class would be the last if the network were affine: seldom nearer than a radius."""
    with torch.enable_grad():
        x = around.x.detach().requires_grad_()
        logits = run(around.operations, x, around.tensors)[around.operations[-1].name]
        apart = logits.amax(dim=1) - logits.amin(dim=1)
        (slope,) = torch.autograd.grad(apart.sum(), x)
    steepness = torch.linalg.vector_norm(slope.flatten(1), ord=_DUAL[around.bounds.norm], dim=1)
    farthest: torch.Tensor = apart.detach() / steepness.clamp(min=1e-30)
    return farthest
