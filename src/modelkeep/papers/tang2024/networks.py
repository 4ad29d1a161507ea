"""The networks of the extraction studies: targets and substitutes are of one kind, as in the paper."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from modelkeep.attack.transfer.proxy import Architecture
from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.study.device import best_device
from modelkeep.zoo.architectures import small_resnet, vgg16_bn


def _strided_cnn(input_shape: Sequence[int], classes: int) -> nn.Module:
    """Two convolutions with a stride of two and one hidden layer: four times as fast as the same with pooling."""
    channels, height, width = input_shape
    places = -(-height // 4) * -(-width // 4)
    return nn.Sequential(
        nn.Conv2d(channels, 16, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * places, 64),
        nn.ReLU(),
        nn.Linear(64, classes),
    )


def build_pooled_network(input_shape: Sequence[int], classes: int) -> nn.Module:
    """A tiny network on images made four times smaller: the Jacobian of a larger one takes MAD far too long."""
    channels, height, width = input_shape
    return nn.Sequential(
        nn.AvgPool2d(4, ceil_mode=True),
        nn.Flatten(),
        nn.Linear(channels * -(-height // 4) * -(-width // 4), 32),
        nn.ReLU(),
        nn.Linear(32, classes),
    )


NETWORKS: dict[str, Architecture] = {
    "strided": _strided_cnn,
    "pooled": build_pooled_network,
    "resnet": small_resnet,
    "vgg16-bn": vgg16_bn,
}


def build_network(network: str, data: Data, seed: int) -> Model:
    """A new network for this data, with weights drawn from the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        module = NETWORKS[network](data.input_shape, len(data.classes))
    return Model(module, input_shape=data.input_shape, classes=data.classes, device=best_device())
