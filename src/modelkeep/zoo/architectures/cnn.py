"""Small convolutional networks: the demo's, LeNet as in Leino2022, the shallow and the deep one of Saha2020."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from modelkeep.zoo.architectures.layers import Layers, check, classifier


def small_cnn(input_shape: Sequence[int], classes: int) -> nn.Module:
    """Two convolutions with pooling and one hidden layer, for images of 4×4 pixels and more.

    >>> [name for name, _ in small_cnn((1, 8, 8), 10).named_children() if "_" not in name]
    ['conv1', 'conv2', 'flatten', 'linear1', 'logits']
    """
    check("small_cnn", input_shape, classes)
    features = Layers(
        conv1=nn.Conv2d(input_shape[0], 16, 3, padding=1),
        conv1_relu=nn.ReLU(),
        conv1_pool=nn.MaxPool2d(2),
        conv2=nn.Conv2d(16, 32, 3, padding=1),
        conv2_relu=nn.ReLU(),
        conv2_pool=nn.MaxPool2d(2),
    )
    return classifier("small_cnn", features, input_shape, classes, [64])


def lenet(input_shape: Sequence[int], classes: int) -> nn.Module:
    """The LeNet variant of Leino2022, section 8.3.3: 5×5 filters, 20 and 50 channels, 500 neurons, dropout.

    The thesis names no padding; there is none here, as in LeNet.
    """
    check("lenet", input_shape, classes)
    features = Layers(
        conv1=nn.Conv2d(input_shape[0], 20, 5),
        conv1_relu=nn.ReLU(),
        conv1_pool=nn.MaxPool2d(2),
        conv1_dropout=nn.Dropout(0.25),
        conv2=nn.Conv2d(20, 50, 5),
        conv2_relu=nn.ReLU(),
        conv2_pool=nn.MaxPool2d(2),
        conv2_dropout=nn.Dropout(0.25),
    )
    return classifier("lenet", features, input_shape, classes, [500], dropout=0.5)


def shallow_cnn(input_shape: Sequence[int], classes: int) -> nn.Module:
    """The simple model of Saha2020, section 5.4: two convolutions, one max pooling, two dense layers.

    The thesis gives no widths. Here they are those of the usual MNIST example of Keras and PyTorch, which has
    just these layers: 32 and 64 channels, 3×3 filters, 128 neurons.
    """
    return plain_cnn(input_shape, classes, [32, 64])


def deep_cnn(input_shape: Sequence[int], classes: int) -> nn.Module:
    """The deeper model of Saha2020, section 5.4: a third convolution, everything else as in `shallow_cnn`."""
    return plain_cnn(input_shape, classes, [32, 64, 64])


def plain_cnn(
    input_shape: Sequence[int], classes: int, channels: Sequence[int], hidden: int = 128, dropout: float = 0.0
) -> nn.Module:
    """A 3×3 convolution per entry of `channels`, then one max pooling and two dense layers, the first of `hidden`.

    What `shallow_cnn` and `deep_cnn` are two of: the plasticity study sweeps through many.
    """
    check("plain_cnn", input_shape, classes)
    features, before = Layers(), input_shape[0]
    for i, after in enumerate(channels, start=1):
        features[f"conv{i}"] = nn.Conv2d(before, after, 3)
        features[f"conv{i}_relu"] = nn.ReLU()
        before = after
    features["pool"] = nn.MaxPool2d(2)
    return classifier("plain_cnn", features, input_shape, classes, [hidden], dropout=dropout)
