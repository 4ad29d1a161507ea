"""The network of IMPALA: residual sections, a linear layer, an LSTM, and a policy and a value on top (figure 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

Memory = tuple[Tensor, Tensor]
"""What the LSTM remembers: its output and its cell, each `(batch, size)`."""


class Block(nn.Module):
    """Two convolutions around which a skip connection goes."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """`x`: (n, channels, height, width); the same shape."""
        inner: Tensor = self.conv2(functional.relu(self.conv1(functional.relu(x))))
        return x + inner


class Section(nn.Module):
    """A convolution, a max-pooling that halves the image (if `pooled`), and residual blocks."""

    def __init__(self, inputs: int, channels: int, blocks: int, pooled: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, channels, 3, padding=1)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1) if pooled else nn.Identity()
        self.blocks = nn.ModuleList(Block(channels) for _ in range(blocks))

    def forward(self, x: Tensor) -> Tensor:
        """`x`: (n, inputs, height, width)."""
        x = self.pool(self.conv1(x))
        for block in self.blocks:
            x = block(x)
        return x


class ImpalaNetwork(nn.Module):
    """Policy and value of what is seen and remembered; its children: `section1` …, `linear`, `lstm`, `policy`, `value`.

    The defaults are the paper's large network, whose weights are as many as in model completion's table 7 when it sees
    3 × 144 × 192. The table's 526,336 parameters of the LSTM are those of 256 inputs and torch's two vectors of biases,
    or of 257 inputs (a reward?) and one: counts cannot tell; it is the former here. The separate LSTM of the paper for
    levels that speak is left out: no environment here speaks.

    >>> network = ImpalaNetwork((4, 10, 10), 6, channels=(16,), blocks=1, pooled=False, linear=64, lstm=64)
    >>> seen = torch.zeros(20, 8, 4, 10, 10, dtype=torch.uint8)  # 20 steps of 8 copies
    >>> logits, values, memory = network(seen, torch.zeros(20, 8, dtype=torch.bool), network.blank(8))
    >>> logits.shape, values.shape, memory[0].shape
    (torch.Size([20, 8, 6]), torch.Size([20, 8]), torch.Size([8, 64]))
    """

    def __init__(
        self,
        observation_shape: Sequence[int],
        actions: int,
        *,
        channels: Sequence[int] = (16, 32, 32),
        blocks: int = 2,
        pooled: bool = True,
        linear: int = 256,
        lstm: int = 256,
        scale: float = 255.0,
    ) -> None:
        super().__init__()
        inputs, *size = observation_shape
        self.scale = scale
        self.sections = len(channels)
        for number, outputs in enumerate(channels, 1):
            self.add_module(f"section{number}", Section(inputs, outputs, blocks, pooled))
            inputs = outputs
            size = [math.ceil(side / 2) for side in size] if pooled else size
        self.linear = nn.Linear(inputs * math.prod(size), linear)
        self.lstm = nn.LSTMCell(linear, lstm)
        self.policy = nn.Linear(lstm, actions)
        self.value = nn.Linear(lstm, 1)

    def blank(self, batch: int) -> Memory:
        """What is remembered before the first observation: nothing."""
        zeros = self.policy.weight.new_zeros(batch, self.lstm.hidden_size)
        return zeros, zeros

    def forward(self, observations: Tensor, begun: Tensor, memory: Memory) -> tuple[Tensor, Tensor, Memory]:
        """Logits `(time, batch, actions)`, values `(time, batch)`, and the memory after the last observation.

        Args:
            observations: `(time, batch, *observation_shape)`, uint8; these and `begun` may be on another device.
            begun: `(time, batch)`, whether an episode begins with that observation: what was before is forgotten.
            memory: What was remembered before the first of them.
        """
        device = self.policy.weight.device
        x = observations.flatten(0, 1).to(device, torch.float32) / self.scale
        for number in range(1, self.sections + 1):
            x = self.get_submodule(f"section{number}")(x)
        x = functional.relu(self.linear(functional.relu(x).flatten(1))).view(*observations.shape[:2], -1)
        kept = (~begun).to(device, x.dtype)[..., None]
        outputs = []
        for t in range(len(x)):  # only the LSTM goes step by step; everything else takes all steps at once
            memory = self.lstm(x[t], (memory[0] * kept[t], memory[1] * kept[t]))
            outputs.append(memory[0])
        output = torch.stack(outputs)
        return self.policy(output), self.value(output).squeeze(-1), memory


def minatar_network(observation_shape: Sequence[int], actions: int) -> ImpalaNetwork:
    """The same in small, for MinAtar's 10×10 of zeros and ones: one section with one block."""
    return ImpalaNetwork(observation_shape, actions, channels=(16,), blocks=1, linear=128, lstm=128, scale=1.0)
