"""The networks that certified training is compared on: 2C2F, 4C3F, 6C2F and 8C2F (Leino2022, appendix A.4).

They have no pooling (a convolution with stride 2 instead), SAME padding, and after each layer but the last MinMax
(table A.3) or ReLU (table A.4). The last width in the thesis is the number of classes of its data set.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from modelkeep.zoo.architectures.layers import Activation, Layers, activate, check, classifier

# The thesis's c(C, K, S): channels, kernel, stride.
_Convolution = tuple[int, int, int]


def cnn_2c2f(input_shape: Sequence[int], classes: int, activation: Activation = "minmax") -> nn.Module:
    """2C2F: c(16,4,2).c(32,4,2).d(100).d(10), for MNIST."""
    return _certifiable("cnn_2c2f", input_shape, classes, activation, [(16, 4, 2), (32, 4, 2)], [100])


def cnn_4c3f(input_shape: Sequence[int], classes: int, activation: Activation = "minmax") -> nn.Module:
    """4C3F: c(32,3,1).c(32,4,2).c(64,3,1).c(64,4,2).d(512).d(512).d(10), for MNIST."""
    convolutions = [(32, 3, 1), (32, 4, 2), (64, 3, 1), (64, 4, 2)]
    return _certifiable("cnn_4c3f", input_shape, classes, activation, convolutions, [512, 512])


def cnn_6c2f(input_shape: Sequence[int], classes: int, activation: Activation = "minmax") -> nn.Module:
    """6C2F: c(32,3,1).c(32,3,1).c(32,4,2).c(64,3,1).c(64,3,1).c(64,4,2).d(512).d(10), for CIFAR-10."""
    convolutions = [(32, 3, 1), (32, 3, 1), (32, 4, 2), (64, 3, 1), (64, 3, 1), (64, 4, 2)]
    return _certifiable("cnn_6c2f", input_shape, classes, activation, convolutions, [512])


def cnn_8c2f(input_shape: Sequence[int], classes: int, activation: Activation = "minmax") -> nn.Module:
    """What A.4 lists as 8C2F, for Tiny-ImageNet: it has 7 convolutions and 1 dense layer (see `cnn_8c2f_full`).

    c(64,3,1).c(64,3,1).c(64,4,2).c(128,3,1).c(128,4,2).c(256,3,1).c(256,4,2).d(200)
    """
    convolutions = [(64, 3, 1), (64, 3, 1), (64, 4, 2), (128, 3, 1), (128, 4, 2), (256, 3, 1), (256, 4, 2)]
    return _certifiable("cnn_8c2f", input_shape, classes, activation, convolutions, [])


def cnn_8c2f_full(input_shape: Sequence[int], classes: int, activation: Activation = "minmax") -> nn.Module:
    """The 8C2F with 8 convolutions and 2 dense layers, for Tiny-ImageNet in Leino2022, appendix B.

    A.4 says that the network which it lists is this one without one convolution and one dense layer.
    """
    convolutions = [(64, 3, 1), (64, 3, 1), (64, 4, 2), (128, 3, 1), (128, 3, 1), (128, 4, 2), (256, 3, 1), (256, 4, 2)]
    return _certifiable("cnn_8c2f_full", input_shape, classes, activation, convolutions, [256])


def _certifiable(
    factory: str,
    input_shape: Sequence[int],
    classes: int,
    activation: Activation,
    convolutions: Sequence[_Convolution],
    hidden: Sequence[int],
) -> nn.Module:
    check(factory, input_shape, classes)
    features, (before, height, width) = Layers(), input_shape
    for i, (channels, kernel, stride) in enumerate(convolutions, start=1):
        (left, right), (top, bottom) = _same(width, kernel, stride), _same(height, kernel, stride)
        if left != right or top != bottom:  # a convolution itself can only pad both sides alike
            features[f"conv{i}_pad"] = nn.ZeroPad2d((0, right - left, 0, bottom - top))
        features[f"conv{i}"] = nn.Conv2d(before, channels, kernel, stride, padding=(top, left))
        features[f"conv{i}_{activation}"] = activate(factory, activation, channels)
        before, height, width = channels, -(-height // stride), -(-width // stride)
    return classifier(factory, features, input_shape, classes, hidden, activation=activation)


def _same(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """SAME padding before and after, as in TensorFlow: ⌈size / stride⌉ values come out; an odd one goes after."""
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2
