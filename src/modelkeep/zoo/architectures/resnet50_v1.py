"""ResNet-50 in its first form, for which real ImageNet weights can be had: the stride is on the first 1×1."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from modelkeep.zoo.architectures.layers import Layers, check
from modelkeep.zoo.architectures.resnet import ResidualBlock

# Per section: width of its bottlenecks, number of blocks (He2016, table 1).
_SECTIONS = ((64, 3), (128, 4), (256, 6), (512, 3))


def resnet50_v1(input_shape: Sequence[int], classes: int) -> nn.Module:
    """ResNet-50 as Keras has it: `conv1`, `section1.block1` … `section4.block3`, `pool`, `logits`.

    It differs from `resnet50` in what its published weights need: a section's first block has its stride on the first
    1×1 convolution, every convolution and `logits` have a bias, and batch normalisation adds 0.001 to the variance.
    The weights, with the names of the classes, are `modelkeep.zoo.pretrained.resnet50()`.
    """
    check("resnet50_v1", input_shape, classes)
    layers = Layers(
        conv1=_convolution(input_shape[0], 64, 7, stride=2, relu=True),
        # Keras pads with zeros. After a ReLU that gives the same maximum as padding with minus infinity.
        conv1_pool=nn.MaxPool2d(3, stride=2, padding=1),
    )
    before = 64
    for i, (width, count) in enumerate(_SECTIONS, start=1):
        section = Layers()
        for j in range(1, count + 1):
            section[f"block{j}"] = _bottleneck(before, width, stride=2 if i > 1 and j == 1 else 1)
            before = 4 * width
        layers[f"section{i}"] = nn.Sequential(section)
    layers["pool"] = nn.AdaptiveAvgPool2d(1)
    layers["flatten"] = nn.Flatten()
    layers["logits"] = nn.Linear(before, classes)
    return nn.Sequential(layers)


def _bottleneck(before: int, width: int, stride: int) -> ResidualBlock:
    residual = Layers(
        conv1=_convolution(before, width, 1, stride, relu=True),
        conv2=_convolution(width, width, 3, relu=True),
        conv3=_convolution(width, 4 * width, 1),
    )
    skip = nn.Identity() if before == 4 * width else _convolution(before, 4 * width, 1, stride)
    return ResidualBlock(nn.Sequential(residual), skip)


def _convolution(before: int, after: int, kernel: int, stride: int = 1, *, relu: bool = False) -> nn.Sequential:
    conv = nn.Conv2d(before, after, kernel, stride, padding=kernel // 2)
    layers = Layers(conv=conv, norm=nn.BatchNorm2d(after, eps=1e-3))
    if relu:
        layers["relu"] = nn.ReLU()
    return nn.Sequential(layers)
