"""VGG16 with batch normalisation."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from modelkeep.zoo.architectures.layers import Layers, check, classifier


def vgg16_bn(input_shape: Sequence[int], classes: int, hidden: Sequence[int] = ()) -> nn.Module:
    """VGG16-BN: 13 convolutions in five sections (Tang2024, table 1; Leino2022, chapter 9), from 32×32 on.

    For CIFAR the paper's code has no hidden dense layer; for ImageNet the original has `hidden=[4096, 4096]`.
    Each section halves the image; its convolutions are `section1.conv1` … `section5.conv3`.
    """
    check("vgg16_bn", input_shape, classes)
    features, before = Layers(), input_shape[0]
    for i, (channels, count) in enumerate([(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)], start=1):
        section = Layers()
        for j in range(1, count + 1):
            conv = nn.Conv2d(before, channels, 3, padding=1)
            section[f"conv{j}"] = nn.Sequential(Layers(conv=conv, norm=nn.BatchNorm2d(channels), relu=nn.ReLU()))
            before = channels
        section["pool"] = nn.MaxPool2d(2)
        features[f"section{i}"] = nn.Sequential(section)
    return classifier("vgg16_bn", features, input_shape, classes, hidden, dropout=0.5)
