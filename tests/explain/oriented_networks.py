"""Networks for pictures whose inner values lie in other ways: tokens with a class token, channels last, windows."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import nn


class Patches(nn.Module):
    """Channel 0 of a patch is its mean, channel 1 the opposite; what follows is a linear head on the mean patch."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(1, 8, 4, 4)
        self.mix = nn.Linear(8, 8)
        self.head = nn.Linear(8, 2)
        with torch.no_grad():
            for part in (self.patch, self.mix, self.head):
                cast(Any, part).weight.zero_()
                cast(Any, part).bias.zero_()
            self.patch.weight[0], self.patch.weight[1] = 1 / 16, -1 / 16
            self.mix.weight.copy_(torch.eye(8))
            self.head.weight[0, 0], self.head.weight[1, 1] = 1.0, 1.0


class Tokens(Patches):
    """A class token before those of the patches, as in a ViT."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("first", torch.zeros(1, 1, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.patch(x).flatten(2).transpose(1, 2)
        z = self.mix(torch.cat([cast(torch.Tensor, self.first).expand(len(x), -1, -1), z], dim=1))
        result: torch.Tensor = self.head(z.square().mean(dim=1))
        return result


class ChannelsLast(Patches):
    """(rows, columns, channels) inside, as in a ConvNeXt block."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.mix(self.patch(x).permute(0, 2, 3, 1))
        result: torch.Tensor = self.head(z.square().mean(dim=(1, 2)))
        return result


class Windows(Patches):
    """Windows of one by two tokens, and back, as in a Swin block; `window` is inside and `mix` outside of them."""

    def __init__(self) -> None:
        super().__init__()
        self.window = nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.patch(x).permute(0, 2, 3, 1)
        n, h, w, c = z.shape
        inside = z.view(n, h, 1, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 2, c)
        inside = self.window(inside).view(n, h, w // 2, 1, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, c)
        result: torch.Tensor = self.head(self.mix(z + 0 * inside).square().mean(dim=(1, 2)))
        return result
