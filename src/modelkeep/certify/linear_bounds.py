"""Linear bounds: how small a sum of values can get while the input is moved in a ball (CROWN, Zhang2018).

The sum is written as a sum of earlier values, operation by operation, backwards to the input: an affine operation is
taken as it is, a non-linear one is replaced by the one of its two lines that makes the sum smaller. What is left is
affine in the input, and smallest in closed form. The lines need intervals of what goes into each non-linear operation;
these are found in the same way, in the order of the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from modelkeep.certify.interpreter import Tensors, run_operation
from modelkeep.certify.intervals import Interval, propagate
from modelkeep.certify.operations import AFFINE, Operation
from modelkeep.certify.relaxation import Lines, relax, relax_relu
from modelkeep.core.norms import Norm

# Where more values than this go into an operation, intervals must do: each takes two passes backwards.
_MOST_ROWS = 2048
_AT_ONCE = 1 << 24  # numbers of the coefficients of some sums
# Rounding, relative to all that is summed: float64 is off by 1e-16 for each of the products in a row.
_ROUNDING = 1e-9
_DUAL = {"l2": 2.0, "linf": 1.0, "l1": math.inf}


class LinearBounds:
    """The network's bounds in the balls of `radius: (n,)` around `x: (n, ...)`, both float64.

    In ℓ∞ the radius may be one for each number of the inputs, `(n, ...)`: a box.
    """

    def __init__(
        self, operations: Sequence[Operation], tensors: Tensors, norm: Norm, x: torch.Tensor, radius: torch.Tensor
    ) -> None:
        self._operations, self._tensors, self._norm = operations, tensors, norm
        self._x, self._radius = x, radius
        self._lines: dict[str, Lines] = {}
        each = radius if radius.ndim > 1 else radius.reshape(-1, *(1,) * (x.ndim - 1))
        self.intervals = {operations[0].name: Interval(x - each, x + each)}
        for operation in operations[1:]:
            given = [self.intervals[name] for name in operation.inputs]
            if operation.kind not in AFFINE:
                if operation.kind == "activation":
                    given = [self._tighten(operation, given[0])]
                    self._lines[operation.name] = relax(operation, given[0])
                elif _is_minmax(operation):
                    self._lines[operation.name] = relax_relu(self._differences(operation, given[0]))
            self.intervals[operation.name] = propagate(operation, given, tensors)

    def at_least(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        """At least the sums of the values `name` with the coefficients `rows: (n, r, ...)`, `(n, r)`."""
        widest = max(math.prod(operation.shape) for operation in self._operations)
        some = max(1, _AT_ONCE // (len(rows) * widest))
        return torch.cat([self._backwards(name, part) for part in torch.split(rows, some, dim=1)], dim=1)

    def by_intervals(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        """The same from the intervals of these values alone."""
        z = self.intervals[name]
        low, high = (end.flatten(1)[:, None] for end in (z.low, z.high))
        flat = rows.flatten(2)
        found = (flat.clamp(min=0) * low + flat.clamp(max=0) * high).sum(dim=2)
        return found - _ROUNDING * (flat.abs() * low.abs().maximum(high.abs())).sum(dim=2)

    def _tighten(self, operation: Operation, known: Interval) -> Interval:
        """The interval of what goes into an activation, made smaller where its lines depend on it."""
        kinked = operation.settings["function"] in ("relu", "leaky_relu", "abs")
        bent = (known.low < 0) & (known.high > 0) if kinked else torch.ones_like(known.low, dtype=torch.bool)
        found = self._narrow(operation.inputs[0], known, bent, lambda eye: eye)
        self.intervals[operation.inputs[0]] = found
        return found

    def _differences(self, operation: Operation, z: Interval) -> Interval:
        """Between which numbers the second of each two neighbouring channels less the first lies."""
        low, high = (end.view(len(end), -1, 2, *end.shape[2:]) for end in (z.low, z.high))
        known = Interval(low[:, :, 1] - high[:, :, 0], high[:, :, 1] - low[:, :, 0])
        bent = (known.low < 0) & (known.high > 0)
        return self._narrow(operation.inputs[0], known, bent, lambda eye: torch.stack([-eye, eye], dim=2).flatten(1, 2))

    def _narrow(
        self, name: str, known: Interval, where: torch.Tensor, spread: Callable[[torch.Tensor], torch.Tensor]
    ) -> Interval:
        """The intervals of sums of the value `name`, narrowed by linear bounds `where` that is of use.

        `spread` makes the coefficients of the value from unit vectors of the sums, `(r, ...)`.
        """
        shape = known.low.shape[1:]
        chosen = where.flatten(1).any(dim=0).nonzero().flatten()
        if not 0 < len(chosen) <= _MOST_ROWS:
            return known
        units = torch.zeros(len(chosen), shape.numel(), dtype=known.low.dtype)
        units[torch.arange(len(chosen)), chosen] = 1.0
        rows = spread(units.view(-1, *shape))[None].expand(len(known.low), *(-1,) * (1 + len(shape)))
        low, high = known.low.flatten(1).clone(), known.high.flatten(1).clone()
        low[:, chosen] = torch.maximum(low[:, chosen], self.at_least(name, rows))
        high[:, chosen] = torch.minimum(high[:, chosen], -self.at_least(name, -rows))
        return Interval(low.view_as(known.low), high.view_as(known.high))

    def _backwards(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        sums = {name: rows}
        constant, summed = rows.new_zeros(rows.shape[:2]), rows.new_zeros(rows.shape[:2])
        for operation in reversed(self._operations[1:]):
            if operation.name not in sums:
                continue
            a = sums.pop(operation.name)
            if operation.kind in AFFINE:
                before, offset = self._through(operation, a)
            else:
                before, offset = self._relaxed(operation, a)
            constant, summed = constant + offset, summed + offset.abs()
            for given, part in zip(operation.inputs, before, strict=True):
                sums[given] = sums[given] + part if given in sums else part
        first = self._operations[0].name
        flat = sums[first].flatten(2) if first in sums else rows.new_zeros(*rows.shape[:2], self._x[0].numel())
        x = self._x.flatten(1)[:, None]
        if self._radius.ndim > 1:
            lost = (flat.abs() * self._radius.flatten(1)[:, None]).sum(dim=2)
        else:
            lost = self._radius[:, None] * torch.linalg.vector_norm(flat, ord=_DUAL[self._norm], dim=2)
        summed = summed + (flat.abs() * x.abs()).sum(dim=2) + lost
        found: torch.Tensor = (flat * x).sum(dim=2) + constant - lost - _ROUNDING * summed
        return found

    def _through(self, operation: Operation, a: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
        """The coefficients of the inputs of an affine operation, and what its constants add."""
        shapes = {each.name: each.shape for each in self._operations}
        n, r = a.shape[:2]
        if operation.kind == "dense":
            weight = self._tensors[operation.tensors["weight"]].to(a)
            before = [a @ weight]
        else:
            with torch.enable_grad():
                zeros = [a.new_zeros(n * r, *shapes[name], requires_grad=True) for name in operation.inputs]
                made = run_operation(operation, list(zeros), self._tensors, constants=False)
                pulled = torch.autograd.grad(made, zeros, a.flatten(0, 1))
            before = [part.view(n, r, *part.shape[1:]) for part in pulled]
        nothing = [a.new_zeros(1, *shapes[name]) for name in operation.inputs]
        offset = run_operation(operation, nothing, self._tensors)
        return before, (a * offset[:, None]).flatten(2).sum(dim=2)

    def _relaxed(self, operation: Operation, a: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
        """The coefficients of what goes into a non-linear operation, and what its lines add."""
        if operation.name not in self._lines:  # its values lie in their interval, whatever goes in
            made = self.intervals[operation.name]
            least = a.clamp(min=0) * made.low[:, None] + a.clamp(max=0) * made.high[:, None]
            nothing = a.new_zeros(*a.shape[:2], *self.intervals[operation.inputs[0]].low.shape[1:])
            return [nothing], least.flatten(2).sum(dim=2)
        if operation.kind == "activation":
            before, offset = _apply(self._lines[operation.name], a)
            return [before], offset
        # The larger of two is the first and max(second - first, 0); the smaller is the second less that.
        larger, smaller = a.reshape(*a.shape[:2], -1, 2, *a.shape[3:]).unbind(3)
        difference, offset = _apply(self._lines[operation.name], larger - smaller)
        return [torch.stack([larger - difference, smaller + difference], dim=3).flatten(2, 3)], offset


def _is_minmax(operation: Operation) -> bool:
    return operation.kind == "group_sort" and operation.settings["size"] == 2


def _apply(lines: Lines, a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rising, falling = a.clamp(min=0), a.clamp(max=0)
    before = rising * lines.below[:, None] + falling * lines.above[:, None]
    offset = rising * lines.below_offset[:, None] + falling * lines.above_offset[:, None]
    return before, offset.flatten(2).sum(dim=2)
