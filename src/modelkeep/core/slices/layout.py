"""Layout: how a tensor lies in memory. The same numbers lying otherwise are summed in another order by torch."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch


@dataclass(frozen=True)
class Layout:
    """The dimensions from the outermost in memory to the innermost, and the room that each takes.

    Args:
        order: All dimensions; those that are `repeated` come last.
        rooms: For each of `order` that is not repeated, how much room it takes where that is more than its size, as
            in a slice of a larger tensor.
        step: From one number to the next in the innermost dimension.
        repeated: Dimensions that hold one and the same number again and again, as the gradient of a sum does.
    """

    order: tuple[int, ...]
    rooms: tuple[int | None, ...]
    step: int
    repeated: tuple[int, ...]

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Layout | None:
        """The layout of a tensor; None where it is row after row without gaps.

        >>> Layout.of(torch.zeros(2, 3)) is None
        True
        >>> Layout.of(torch.zeros(2, 3).t())
        Layout(order=(1, 0), rooms=(None, None), step=1, repeated=())
        """
        if tensor.is_contiguous():
            return None
        size, stride = tensor.shape, tensor.stride()
        inside = sorted((d for d in range(tensor.dim()) if stride[d]), key=lambda d: (-stride[d], -size[d]))
        repeated = tuple(d for d in range(tensor.dim()) if not stride[d])
        rooms: list[int | None] = [None] * min(1, len(inside))
        for outer, inner in pairwise(inside):
            room = stride[outer] // stride[inner]
            rooms.append(room if room > size[inner] else None)
        return cls((*inside, *repeated), tuple(rooms), stride[inside[-1]] if inside else 1, repeated)

    @property
    def dense(self) -> bool:
        """Whether it is an order of the dimensions and nothing else."""
        return not self.repeated and self.step == 1 and not any(self.rooms)

    @property
    def inverse(self) -> tuple[int, ...]:
        """The permutation that undoes `order`."""
        return tuple(sorted(range(len(self.order)), key=self.order.__getitem__))

    def lay(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same numbers in this layout."""
        once = tensor
        for d in self.repeated:
            once = once.narrow(d, 0, 1)
        if self.repeated and not torch.equal(once.expand_as(tensor), tensor):
            return tensor  # never lose a number to keep a layout
        stride, following = [0] * tensor.dim(), self.step
        for d, room in reversed(list(zip(self.order, self.rooms, strict=False))):
            stride[d] = following
            following *= room or tensor.shape[d]
        if once.stride() == tuple(stride):
            return tensor
        laid = torch.empty_strided(once.shape, stride, dtype=tensor.dtype, device=tensor.device).copy_(once)
        return laid.expand_as(tensor)


class _Laid(torch.autograd.Function):
    """The identity, which lays the value and its gradient."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, ahead: Layout | None, back: Layout | None) -> torch.Tensor:
        ctx.back = back
        return value.view_as(value) if ahead is None else ahead.lay(value)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (gradient,) = gradients
        return gradient if ctx.back is None else ctx.back.lay(gradient), None, None


def lay_out(value: torch.Tensor, *, ahead: Layout | None = None, back: Layout | None = None) -> torch.Tensor:
    """`value` in the layout `ahead`, with its gradient in the layout `back`; None leaves it as it comes."""
    if ahead is None and back is None:
        return value
    result: torch.Tensor = _Laid.apply(value, ahead, back)  # type: ignore[no-untyped-call]
    return result
