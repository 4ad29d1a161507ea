"""AlexNet in the three sizes of Martic2018, table 3, and a small one for small images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn

from modelkeep.core.errors import bad_parameter
from modelkeep.zoo.architectures.layers import Layers, check, classifier

_WIDTH = {"standard": 1.0, "large": 1.5, "small": 0.5}


def alexnet(
    input_shape: Sequence[int], classes: int, size: Literal["standard", "large", "small"] = "standard"
) -> nn.Module:
    """Five convolutions with batch normalisation, two dense layers and logits (Martic2018, table 3 and appendix A).

    "large" and "small" have 50 % more and fewer channels and neurons. The table's counts fix the rest: Linear 1
    has 256 inputs per neuron, which is what 224×224 images leave after convolutions and poolings without padding;
    a convolution has one number per channel beside its weights; the logits have no bias. Other images of 195×195
    and more are fine too; at 227×227 Linear 1 has four times as many inputs.

    The children `conv1` … `conv5`, `linear1`, `linear2`, `logits` are the columns of the table.
    """
    check("alexnet", input_shape, classes)
    if size not in _WIDTH:
        raise bad_parameter("alexnet", "size", f"one of {', '.join(map(repr, _WIDTH))}", size)
    a, b, c, dense = (int(width * _WIDTH[size]) for width in (96, 256, 384, 4096))
    features = Layers(
        conv1=_convolution(input_shape[0], a, 11, stride=4),
        conv1_pool=nn.MaxPool2d(3, stride=2),
        conv2=_convolution(a, b, 5),
        conv2_pool=nn.MaxPool2d(3, stride=2),
        conv3=_convolution(b, c, 3),
        conv4=_convolution(c, c, 3),
        conv5=_convolution(c, b, 3),
        conv5_pool=nn.MaxPool2d(3, stride=2),
    )
    return classifier("alexnet", features, input_shape, classes, [dense, dense], bias=False)


def small_alexnet(input_shape: Sequence[int], classes: int, width: int = 16) -> nn.Module:
    """AlexNet's layers for 28×28 and 32×32 images: `width` channels after `conv1`, 3 · `width` at most.

    Strides and poolings shrink such images by 16 as AlexNet does by 8 · 4, and the children have the same names.
    """
    check("small_alexnet", input_shape, classes)
    if width < 1:
        raise bad_parameter("small_alexnet", "width", "at least 1", width)
    a, b, c, dense = width, 2 * width, 3 * width, 8 * width
    features = Layers(
        conv1=_convolution(input_shape[0], a, 5, stride=2, padding=2),
        conv1_pool=nn.MaxPool2d(2),
        conv2=_convolution(a, b, 3, padding=1),
        conv2_pool=nn.MaxPool2d(2, ceil_mode=True),
        conv3=_convolution(b, c, 3, padding=1),
        conv4=_convolution(c, c, 3, padding=1),
        conv5=_convolution(c, b, 3, padding=1),
        conv5_pool=nn.MaxPool2d(2),
    )
    return classifier("small_alexnet", features, input_shape, classes, [dense, dense], bias=False)


def _convolution(before: int, after: int, kernel: int, stride: int = 1, padding: int = 0) -> nn.Sequential:
    norm = nn.BatchNorm2d(after)
    # The table has one number per channel beside the weights. A bias before the normalisation would be
    # subtracted again, so it is the shift after it; the scale is the constant 1.
    del norm.weight
    norm.register_buffer("weight", torch.ones(after))
    conv = nn.Conv2d(before, after, kernel, stride, padding, bias=False)
    return nn.Sequential(Layers(conv=conv, norm=norm, relu=nn.ReLU()))
