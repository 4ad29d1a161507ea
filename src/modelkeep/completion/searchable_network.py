"""A small network with many choices, cut in the middle: the space in which modulation searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn

from modelkeep.core.errors import bad_parameter
from modelkeep.zoo.architectures.layers import Layers, check

_Normalisation = Literal["none", "batch", "group"]


class _ConvBlock(nn.Module):
    """A convolution with its normalisation and ReLU; with a `skip`, its result is added to its input."""

    def __init__(self, width: int, kernel: int, normalisation: _Normalisation, skip: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, kernel, padding=kernel // 2)
        self.norm = _norm(normalisation, width)
        self.skip = skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`(n, width, h, w)` as before."""
        made = torch.relu(self.norm(self.conv(x)))
        return x + made if self.skip else made


def searchable_network(
    input_shape: Sequence[int],
    classes: int,
    *,
    width: int = 16,
    before: int = 1,
    after: int = 1,
    hidden: int = 64,
    kernel: int = 3,
    stride: int = 2,
    normalisation: _Normalisation = "none",
    skips: bool = False,
    dropout: float = 0.0,
) -> nn.Sequential:
    """`lower` and `upper`, with the cut between them.

    `lower` is a convolution that makes `width` channels with this `stride`, then `before` blocks; `upper` is `after`
    blocks, a pooling to 4×4, a layer of `hidden` neurons (0: none) and the logits. So `before` and `after` say on
    which side of the cut the capacity sits.

    >>> [name for name, _ in searchable_network((1, 28, 28), 10).named_children()]
    ['lower', 'upper']
    """
    check("searchable_network", input_shape, classes)
    for name, value, least in (("width", width, 1), ("before", before, 0), ("after", after, 0), ("hidden", hidden, 0)):
        if value < least:
            raise bad_parameter("searchable_network", name, f"at least {least}", value)
    if kernel % 2 == 0:
        raise bad_parameter("searchable_network", "kernel", "an odd number", kernel)
    lower = Layers(
        conv=nn.Conv2d(input_shape[0], width, kernel, stride, padding=kernel // 2),
        norm=_norm(normalisation, width),
        relu=nn.ReLU(),
    )
    for i in range(1, before + 1):
        lower[f"block{i}"] = _ConvBlock(width, kernel, normalisation, skips)
    upper = Layers()
    for i in range(1, after + 1):
        upper[f"block{i}"] = _ConvBlock(width, kernel, normalisation, skips)
    upper |= Layers(pool=nn.AdaptiveAvgPool2d(4), flatten=nn.Flatten(), dropout=nn.Dropout(dropout))
    flat = 16 * width
    if hidden:
        upper |= Layers(linear=nn.Linear(flat, hidden), linear_relu=nn.ReLU())
        flat = hidden
    upper["logits"] = nn.Linear(flat, classes)
    return nn.Sequential(Layers(lower=nn.Sequential(lower), upper=nn.Sequential(upper)))


def _norm(normalisation: _Normalisation, width: int) -> nn.Module:
    if normalisation == "batch":
        return nn.BatchNorm2d(width)
    if normalisation == "group":
        return nn.GroupNorm(1, width)
    if normalisation == "none":
        return nn.Identity()
    raise bad_parameter("searchable_network", "normalisation", "'none', 'batch' or 'group'", normalisation)
