"""EfficientNet-Lite0: a small ImageNet network without squeeze-and-excitation, for which real weights can be had."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn

from modelkeep.zoo.architectures.layers import Layers, check

# Per section: blocks, kernel, stride of the first block, expansion, channels (Tan2019, table 1).
_SECTIONS = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


class Residual(nn.Module):
    """residual(x) + x."""

    def __init__(self, residual: nn.Sequential) -> None:
        super().__init__()
        self.residual = residual

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = self.residual(x) + x
        return added


def efficientnet_lite0(input_shape: Sequence[int], classes: int) -> nn.Module:
    """EfficientNet-Lite0: `stem`, `section1.block1` … `section7.block1`, `head`, `pool`, `logits`.

    Its weights for ImageNet, with the names of the classes, are `modelkeep.zoo.pretrained.efficientnet_lite0()`.
    """
    check("efficientnet_lite0", input_shape, classes)
    size = (input_shape[1], input_shape[2])
    layers = Layers(stem=_convolution(input_shape[0], 32, 3, 2, size))
    size, before = _halve(size, 2), 32
    for i, (count, kernel, first_stride, expansion, after) in enumerate(_SECTIONS, start=1):
        section = Layers()
        for j in range(1, count + 1):
            stride = first_stride if j == 1 else 1
            section[f"block{j}"] = _block(before, after, kernel, stride, expansion, size)
            size, before = _halve(size, stride), after
        layers[f"section{i}"] = nn.Sequential(section)
    layers["head"] = _convolution(before, 1280, 1, 1, size)
    layers["pool"] = nn.AdaptiveAvgPool2d(1)
    layers["dropout"] = nn.Dropout(0.2)
    layers["flatten"] = nn.Flatten()
    layers["logits"] = nn.Linear(1280, classes)
    return nn.Sequential(layers)


def _block(before: int, after: int, kernel: int, stride: int, expansion: int, size: tuple[int, int]) -> nn.Module:
    """Widen, convolve each channel on its own, narrow; added to the input where the shape is the same."""
    wide = before * expansion
    layers = Layers()
    if expansion > 1:
        layers["expand"] = _convolution(before, wide, 1, 1, size)
    layers["depthwise"] = _convolution(wide, wide, kernel, stride, size, groups=wide)
    layers["project"] = _convolution(wide, after, 1, 1, _halve(size, stride), relu=False)
    block = nn.Sequential(layers)
    return Residual(block) if stride == 1 and before == after else block


def _convolution(
    before: int, after: int, kernel: int, stride: int, size: tuple[int, int], groups: int = 1, *, relu: bool = True
) -> nn.Sequential:
    layers = Layers()
    # As TensorFlow pads, where the weights were trained: rather more at the end than at the start.
    missing = [max((math.ceil(length / stride) - 1) * stride + kernel - length, 0) for length in size]
    if any(missing):
        height, width = missing
        layers["pad"] = nn.ZeroPad2d((width // 2, width - width // 2, height // 2, height - height // 2))
    layers["conv"] = conv = nn.Conv2d(before, after, kernel, stride, groups=groups, bias=False)
    nn.init.kaiming_normal_(conv.weight)  # with torch's own choice the signal would fade out over the layers
    layers["norm"] = nn.BatchNorm2d(after, eps=1e-3, momentum=0.01)
    if relu:
        layers["relu"] = nn.ReLU6()
    return nn.Sequential(layers)


def _halve(size: tuple[int, int], stride: int) -> tuple[int, int]:
    return math.ceil(size[0] / stride), math.ceil(size[1] / stride)
