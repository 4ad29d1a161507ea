"""Residual networks: ResNet50 as the model-splitting paper cuts it, and small ones for small images."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from modelkeep.core.errors import bad_parameter
from modelkeep.zoo.architectures.layers import Layers, check


class ResidualBlock(nn.Module):
    """relu(residual(x) + skip(x)); the skip is learned where the shape changes, else it is the identity."""

    def __init__(self, residual: nn.Sequential, skip: nn.Module) -> None:
        super().__init__()
        self.residual = residual
        self.skip = skip
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = self.relu(self.residual(x) + self.skip(x))
        return added


def resnet50(input_shape: Sequence[int], classes: int) -> nn.Module:
    """ResNet50 (Martic2018, table 4): `conv1`, `section1.block1` … `section4.block3`, `logits` without bias.

    "S4 B1 -W" is `section4.block1` without its `skip`. Counts cannot say where a section's first block has its
    stride; here it is the 3×3 convolution, as in most code since.
    """
    check("resnet50", input_shape, classes)
    layers = Layers(
        conv1=_convolution(input_shape[0], 64, 7, stride=2, relu=True),
        conv1_pool=nn.MaxPool2d(3, stride=2, padding=1),
    )
    before = 64
    for i, (width, count) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)], start=1):
        section = Layers()
        for j in range(1, count + 1):
            section[f"block{j}"] = _bottleneck(before, width, stride=2 if i > 1 and j == 1 else 1)
            before = 4 * width
        layers[f"section{i}"] = nn.Sequential(section)
    return _add_top(layers, nn.Linear(before, classes, bias=False))


def small_resnet(
    input_shape: Sequence[int], classes: int, blocks: int = 3, width: int = 16, stride: int = 1
) -> nn.Module:
    """He et al.'s CIFAR form for 28×28 and 32×32 images: three sections of `blocks` blocks of two convolutions.

    It is 6 · `blocks` + 2 layers deep, ResNet-20 unless told otherwise. Its skips are learned where the width
    doubles, as in ResNet50, so that they can be reset or kept on their own. `stride` is that of `conv1`: with 2, which
    is ResNet50's, all sections are four times as fast.
    """
    check("small_resnet", input_shape, classes)
    for name, value in (("blocks", blocks), ("width", width), ("stride", stride)):
        if value < 1:
            raise bad_parameter("small_resnet", name, "at least 1", value)
    layers = Layers(conv1=_convolution(input_shape[0], width, 3, stride, relu=True))
    before = width
    for i in (1, 2, 3):
        section, after = Layers(), width * 2 ** (i - 1)
        for j in range(1, blocks + 1):
            section[f"block{j}"] = _basic(before, after, stride=2 if i > 1 and j == 1 else 1)
            before = after
        layers[f"section{i}"] = nn.Sequential(section)
    return _add_top(layers, nn.Linear(before, classes))


def _convolution(before: int, after: int, kernel: int, stride: int = 1, *, relu: bool = False) -> nn.Sequential:
    conv = nn.Conv2d(before, after, kernel, stride, padding=kernel // 2, bias=False)
    layers = Layers(conv=conv, norm=nn.BatchNorm2d(after))
    if relu:
        layers["relu"] = nn.ReLU()
    return nn.Sequential(layers)


def _skip(before: int, after: int, stride: int) -> nn.Module:
    return nn.Identity() if before == after and stride == 1 else _convolution(before, after, 1, stride)


def _bottleneck(before: int, width: int, stride: int) -> ResidualBlock:
    residual = Layers(
        conv1=_convolution(before, width, 1, relu=True),
        conv2=_convolution(width, width, 3, stride, relu=True),
        conv3=_convolution(width, 4 * width, 1),
    )
    return ResidualBlock(nn.Sequential(residual), _skip(before, 4 * width, stride))


def _basic(before: int, after: int, stride: int) -> ResidualBlock:
    residual = Layers(conv1=_convolution(before, after, 3, stride, relu=True), conv2=_convolution(after, after, 3))
    return ResidualBlock(nn.Sequential(residual), _skip(before, after, stride))


def _add_top(layers: Layers, logits: nn.Linear) -> nn.Sequential:
    return nn.Sequential(Layers(layers, pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), logits=logits))
