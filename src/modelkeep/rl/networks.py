"""Networks of the agents: convolutions, a linear layer, and heads, named as the columns of tables 5 and 6."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from modelkeep.core.errors import InputError, bad_parameter


@dataclass(frozen=True)
class Convolution:
    """A convolution with a square kernel, followed by a ReLU."""

    filters: int
    kernel: int
    stride: int = 1
    padding: int = 0


@dataclass(frozen=True)
class Torso:
    """What comes before the heads: convolutions, and how an observation of bytes becomes their input."""

    convolutions: tuple[Convolution, ...]
    unit: float  # the byte that becomes 1: the network divides by it
    bias: bool
    orthogonal: bool = False  # how weights begin, else by torch's own rule


# Table 5 has no biases: 8,192 = 8·8·4·32, 32,768 = 4·4·32·64 and 36,864 = 3·3·64·64. Its 1,179,648 = 512 · 2,304 needs
# 6×6×64 features, while the usual network (no padding, strides 4, 2, 1) makes 7×7×64 of 84×84. With the usual first two
# strides, padding that loses no pixel ('same') and a last stride of 2 do it: 84 → 21 → 11 → 6.
#
# Table 6 gives Rainbow 1,267,712 in all, 512 more than table 5: the same layers, with 18 advantages and a value for
# heads, and 512 more, such as the biases of the linear layer. It leaves out the atoms, the noise and the second stream:
# heads over 51 atoms have 512 · 19 · 51 = 496,128 weights alone.
ATARI = Torso((Convolution(32, 8, 4, 2), Convolution(64, 4, 2, 2), Convolution(64, 3, 2, 1)), unit=255.0, bias=False)
MINATAR = Torso((Convolution(16, 3), Convolution(16, 3)), unit=1.0, bias=True)


class OrthogonalConv2d(nn.Conv2d):
    """A convolution whose weights begin orthogonal, with the gain that keeps the scale of what passes a ReLU."""

    def reset_parameters(self) -> None:
        """Draw the weights; a bias begins at 0."""
        _begin_orthogonal(self, sqrt(2))


class OrthogonalLinear(nn.Linear):
    """A linear layer whose weights begin orthogonal."""

    def __init__(self, inputs: int, outputs: int, *, gain: float, **options: Any) -> None:
        self.gain = gain  # before the layer is made, which draws its weights
        super().__init__(inputs, outputs, **options)

    def reset_parameters(self) -> None:
        """Draw the weights; a bias begins at 0."""
        _begin_orthogonal(self, self.gain)


def _begin_orthogonal(layer: nn.Conv2d | nn.Linear, gain: float) -> None:
    nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


class Convolutional(nn.Module):
    """A network that begins with a torso: `conv1`, `conv2` … are its children, `features` what they make of bytes.

    `width` is the number of features.
    """

    def __init__(self, torso: Torso, shape: tuple[int, ...]) -> None:
        super().__init__()
        if len(shape) != 3:
            raise bad_parameter(type(self).__name__, "shape", "(channels, height, width)", shape)
        self.torso = torso
        channels, *sides = shape
        for i, layer in enumerate(torso.convolutions, start=1):
            conv = OrthogonalConv2d if torso.orthogonal else nn.Conv2d
            made = conv(channels, layer.filters, layer.kernel, layer.stride, layer.padding, bias=torso.bias)
            self.add_module(f"conv{i}", made)
            channels = layer.filters
            sides = [(side + 2 * layer.padding - layer.kernel) // layer.stride + 1 for side in sides]
        if min(sides) < 1:
            raise InputError(f"Observations of shape {shape} are too small for the convolutions {torso.convolutions}.")
        self.width = channels * sides[0] * sides[1]

    def features(self, observations: torch.Tensor) -> torch.Tensor:
        """`(n, width)` of observations `(n, channels, height, width)` of bytes, which may be on another device."""
        device = next(self.parameters()).device
        # With the channels last, Atari's network takes a fifth less time.
        x = observations.to(device, torch.float32, memory_format=torch.channels_last)
        if self.torso.unit != 1:
            x = x / self.torso.unit
        for i in range(1, len(self.torso.convolutions) + 1):
            x = functional.relu(self.get_submodule(f"conv{i}")(x))
        return x.flatten(1)


class ActorCritic(Convolutional):
    """A policy and a value function that share all but their heads.

    >>> network = minatar_actor_critic(channels=4, actions=3)
    >>> logits, values = network(torch.zeros(2, 4, 10, 10, dtype=torch.uint8))
    >>> logits.shape, values.shape
    (torch.Size([2, 3]), torch.Size([2]))
    """

    def __init__(self, torso: Torso, shape: tuple[int, ...], hidden: int, actions: int) -> None:
        super().__init__(torso, shape)
        if actions < 1:
            raise bad_parameter("ActorCritic", "actions", "at least 1", actions)
        self.linear = self._linear(self.width, hidden, sqrt(2))
        self.policy = self._linear(hidden, actions, 0.01)  # nearly every action with the same chance at first
        self.value = self._linear(hidden, 1, 1.0)

    def _linear(self, inputs: int, outputs: int, gain: float) -> nn.Linear:
        if self.torso.orthogonal:
            return OrthogonalLinear(inputs, outputs, gain=gain, bias=self.torso.bias)
        return nn.Linear(inputs, outputs, bias=self.torso.bias)

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits `(n, actions)` and values `(n,)` of observations `(n, *shape)` of bytes."""
        hidden = functional.relu(self.linear(self.features(observations)))
        return self.policy(hidden), self.value(hidden).squeeze(1)


def atari_actor_critic(actions: int = 18) -> ActorCritic:
    """Table 5's network, for four frames of 84×84: 1,267,200 parameters with all 18 actions.

    Its weights begin orthogonal, as in the A2C of others. Screens are mostly black, and by torch's own rule each layer
    passes on 0.4 of the scale of what comes in.
    """
    return ActorCritic(replace(ATARI, orthogonal=True), (4, 84, 84), 512, actions)


def minatar_actor_critic(channels: int, actions: int) -> ActorCritic:
    """The same in small, for MinAtar's 10×10.

    Few bits of an observation are set. As zeros and ones, policy and value hardly depend on them at first, and Asterix
    is not learned in 300,000 steps; as zeros and tens it is.
    """
    return ActorCritic(replace(MINATAR, unit=0.1), (channels, 10, 10), 128, actions)
