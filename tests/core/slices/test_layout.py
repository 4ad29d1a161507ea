"""A layout that was seen once is given to other numbers, of another batch size too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from modelkeep.core.slices.layout import Layout, lay_out

WAYS: dict[str, Callable[[int], torch.Tensor]] = {
    "transposed": lambda n: torch.randn(5, n).t(),
    "time first": lambda n: torch.randn(7, n, 3).transpose(0, 1),
    "channels last": lambda n: torch.randn(n, 3, 4, 5).to(memory_format=torch.channels_last),
    "slice": lambda n: torch.randn(n, 8, 3)[:, 2:5],
    "one of a row": lambda n: torch.randn(n, 8, 3)[:, :1],
    "every other": lambda n: torch.randn(n, 8)[:, ::2],
    "one of the last": lambda n: torch.randn(n, 4, 6)[..., 0],
    "sum": lambda n: torch.randn(n, 1, 3).expand(n, 6, 3),
    "scalar": lambda n: torch.randn(()).expand(n, 3),
    "slice of a transposed": lambda n: torch.randn(n, 6, 4).transpose(1, 2)[:, 1:3],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("n", [2, 3, 11])
def test_a_dense_copy_gets_its_layout_again(way: str, n: int) -> None:
    layout = Layout.of(WAYS[way](3))
    assert layout is not None
    tensor = WAYS[way](n)
    again = layout.lay(tensor.clone(memory_format=torch.contiguous_format))
    assert torch.equal(again, tensor)
    assert again.stride() == tensor.stride()


def test_rows_without_gaps_need_no_layout() -> None:
    assert Layout.of(torch.zeros(3, 1, 4)) is None
    value = torch.zeros(2)
    assert lay_out(value) is value


def test_numbers_that_are_not_repeated_are_kept() -> None:
    layout = Layout.of(torch.zeros(3, 1).expand(3, 4))
    assert layout is not None
    other = torch.arange(12.0).view(3, 4)
    assert torch.equal(layout.lay(other), other)


def test_a_gradient_passes_unchanged_but_for_its_layout() -> None:
    layout = Layout.of(torch.zeros(4, 3).t())
    x = torch.randn(3, 4, requires_grad=True)
    seen: list[torch.Tensor] = []
    y = x * 1.0
    y.register_hook(seen.append)  # type: ignore[no-untyped-call]
    lay_out(y, back=layout).backward(torch.arange(12.0).view(3, 4))  # type: ignore[no-untyped-call]
    assert torch.equal(seen[0], torch.arange(12.0).view(3, 4))
    assert seen[0].stride() == (1, 3)
    assert lay_out(y, ahead=layout).stride() == (1, 3)
