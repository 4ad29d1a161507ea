"""A network whose prediction is what its input says, shaken a little anew in each call, as other machines would."""

from __future__ import annotations

import torch
from torch import nn

SHAKE = 4e-7
"""How far a logit is moved at most; between two calls a prediction moves by less than four times that in ℓ1."""


class Shaky(nn.Module):
    """Logits in, the same logits out, give or take the noise that a batch of another size has."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        noise = torch.empty_like(x).uniform_(-SHAKE, SHAKE, generator=torch.Generator().manual_seed(_fresh()))
        return self.scale * x + noise


def _fresh() -> int:
    return torch.seed() % 2**31  # another one in each call and each process: the point of it


def network() -> nn.Module:
    """What the gateway's settings name."""
    return Shaky()
