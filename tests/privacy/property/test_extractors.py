"""Extractors: the size of the thesis' ResNet18, and features for pictures of any side."""

from __future__ import annotations

import pytest
import torch

from modelkeep.core.errors import ParameterError
from modelkeep.privacy.property.extractors import make_extractor


def test_the_resnet_has_as_many_weights_as_the_usual_pre_activation_resnet18() -> None:
    network, width = make_extractor("resnet18", 3)
    # The CIFAR form with a linear layer to 10 classes has 11,171,146 (kuangliu/pytorch-cifar), which ends without a
    # last norm: ours has that norm, 2 · 512, and no linear layer, 512 · 10 + 10.
    assert sum(each.numel() for each in network.parameters()) == 11_171_146 + 2 * 512 - 5130
    assert network.eval()(torch.rand(2, 3, 32, 32)).shape == (2, width)


@pytest.mark.parametrize("side", [8, 28, 33])
def test_the_small_one_takes_pictures_of_any_side(side: int) -> None:
    network, width = make_extractor("small-cnn", 1)
    assert network(torch.rand(2, 1, side, side)).shape == (2, width)


def test_another_name_is_refused() -> None:
    with pytest.raises(ParameterError, match="small-cnn"):
        make_extractor("vgg", 1)  # type: ignore[arg-type]
