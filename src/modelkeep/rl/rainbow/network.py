"""RainbowNetwork: shared convolutions, then a value and an advantage stream of noisy layers over the atoms."""

from __future__ import annotations

import torch
from torch.nn import functional

from modelkeep.core.errors import bad_parameter
from modelkeep.rl.networks import ATARI, MINATAR, Convolutional, Torso
from modelkeep.rl.rainbow.noisy import NoisyLinear


class RainbowNetwork(Convolutional):
    """The dueling, distributional, noisy network of Hessel2018.

    Logits of each action's distribution over the atoms: value + advantage - the mean advantage, for each atom. `linear`
    holds the hidden units of both streams, first those of the value: one layer takes half the time of two. They share
    the noise of their inputs, and nothing else.

    >>> network = minatar_rainbow(channels=4, actions=3)
    >>> network(torch.zeros(2, 4, 10, 10, dtype=torch.uint8)).shape
    torch.Size([2, 3, 51])
    """

    def __init__(self, torso: Torso, shape: tuple[int, ...], hidden: int, actions: int, atoms: int = 51) -> None:
        super().__init__(torso, shape)
        for name, value, least in (("hidden", hidden, 1), ("actions", actions, 1), ("atoms", atoms, 2)):
            if value < least:
                raise bad_parameter("RainbowNetwork", name, f"at least {least}", value)
        self.actions, self.atoms = actions, atoms
        self.linear = NoisyLinear(self.width, 2 * hidden)
        self.value = NoisyLinear(hidden, atoms)
        self.advantage = NoisyLinear(hidden, actions * atoms)

    def forward(self, observations: torch.Tensor, generator: torch.Generator | None = None) -> torch.Tensor:
        """Logits `(n, actions, atoms)` of observations `(n, *shape)` of bytes, under noise from the generator."""
        streams = functional.relu(self.linear(self.features(observations), generator)).chunk(2, dim=1)
        value: torch.Tensor = self.value(streams[0], generator)
        advantage: torch.Tensor = self.advantage(streams[1], generator).view(-1, self.actions, self.atoms)
        return value[:, None] + advantage - advantage.mean(dim=1, keepdim=True)


def atari_rainbow(actions: int = 18) -> RainbowNetwork:
    """For four frames of 84×84, with the convolutions of table 6: 8,192, 32,768 and 36,864 parameters."""
    return RainbowNetwork(ATARI, (4, 84, 84), 512, actions)


def minatar_rainbow(channels: int, actions: int) -> RainbowNetwork:
    """The same in small, for MinAtar's 10×10; both streams together have the 128 units of its usual agents."""
    return RainbowNetwork(MINATAR, (channels, 10, 10), 64, actions)
