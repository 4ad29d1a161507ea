"""What the meta-classifier sees in one picture: features by a pre-activation ResNet18, or by a small CNN of ours."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from modelkeep.core.errors import bad_parameter

Extractor = Literal["small-cnn", "resnet18"]


def make_extractor(name: Extractor, channels: int) -> tuple[nn.Module, int]:
    """The network from pictures `(n, channels, h, w)` to features `(n, width)`, and their width."""
    if name == "resnet18":
        return _resnet18(channels), 512
    if name == "small-cnn":
        return _small_cnn(channels), 64
    raise bad_parameter("make_extractor", "name", "'small-cnn' or 'resnet18'", name)


class PreActivationBlock(nn.Module):
    """x + conv(relu(norm(conv(relu(norm(x)))))): norm and activation stand before each convolution (He2016)."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(before)
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.skip = nn.Conv2d(before, after, 1, stride, bias=False) if stride > 1 or before != after else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x: (n, before, h, w)`."""
        active = torch.relu(self.norm1(x))
        residual = self.conv2(torch.relu(self.norm2(self.conv1(active))))
        # Where the shape changes, the skip starts behind the first activation; elsewhere it is the identity.
        found: torch.Tensor = residual + (x if self.skip is None else self.skip(active))
        return found


def _resnet18(channels: int) -> nn.Sequential:
    """ResNet18 with pre-activation for small pictures: 64 to 512 channels in four sections of two blocks."""
    blocks: list[nn.Module] = [nn.Conv2d(channels, 64, 3, padding=1, bias=False)]
    before = 64
    for after, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        blocks += [PreActivationBlock(before, after, stride), PreActivationBlock(after, after, 1)]
        before = after
    return nn.Sequential(*blocks, nn.BatchNorm2d(before), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def _small_cnn(channels: int) -> nn.Sequential:
    """Ours, for machines without a GPU. It keeps the place of what it sees, which tells most marks apart."""
    return nn.Sequential(
        nn.Conv2d(channels, 16, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(7),
        nn.Flatten(),
        nn.Linear(16 * 49, 64),
        nn.ReLU(),
    )
