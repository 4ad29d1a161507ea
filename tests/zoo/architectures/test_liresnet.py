"""LiResNet's blocks are linear, and what stands between them only sorts."""

from __future__ import annotations

import pytest
import torch

from modelkeep.core.errors import InputError
from modelkeep.zoo.architectures import small_liresnet
from modelkeep.zoo.architectures.liresnet import LinearBlock


def test_a_block_is_the_identity_and_a_convolution_in_one_linear_map() -> None:
    torch.manual_seed(0)
    block, x = LinearBlock(4), torch.randn(2, 4, 5, 5)
    assert torch.allclose(block(x), x + block.conv(x))
    offset = block(torch.zeros_like(x))
    assert torch.allclose(block(3 * x) - offset, 3 * (block(x) - offset), atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 8, 8), (2, 9, 7)], ids=str)
def test_it_takes_images_of_many_sizes(shape: tuple[int, int, int]) -> None:
    network = small_liresnet(shape, 5, blocks=2, width=8, hidden=16)
    assert network(torch.zeros(3, *shape)).shape == (3, 5)
    assert [name for name, _ in network.named_children() if name.startswith("block")] == [
        "block1",
        "block1_minmax",
        "block2",
        "block2_minmax",
    ]


def test_it_refuses_widths_that_cannot_be_sorted_in_pairs() -> None:
    with pytest.raises(InputError, match="'width' parameter of small_liresnet must be an even number"):
        small_liresnet((1, 8, 8), 5, width=7)
    with pytest.raises(InputError, match="'blocks' parameter of small_liresnet must be at least 1"):
        small_liresnet((1, 8, 8), 5, blocks=0)
