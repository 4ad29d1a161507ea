"""Networks to cut into pieces: every one of them has something that is hard to carry over a cut exactly."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

CLASSES = 3
IMAGE = (2, 8, 8)
STEPS = (7, 4)


class Convolutional(nn.Module):
    """Batch norm, dropout as a module and as a function, ReLU in place right after a convolution, a size at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(IMAGE[0], 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.relu = nn.ReLU(inplace=True)
        self.drop = nn.Dropout(0.3)
        self.conv2 = nn.Conv2d(6, 8, 3, stride=2, padding=1)
        self.hidden = nn.Linear(8 * 16, 10)
        self.last = nn.Linear(10, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.drop(self.relu(self.norm(self.conv1(x))))
        out = self.relu(self.conv2(out))
        out = functional.dropout(self.hidden(out.view(x.size(0), -1)), 0.3, training=self.training)
        logits: torch.Tensor = self.last(torch.tanh(out))
        return logits


class Recurrent(nn.Module):
    """Two LSTMs, whose nests of transposed tensors cross, and of the second the hidden state too."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.LSTM(STEPS[1], 6, batch_first=True)
        self.between = nn.Linear(6, 5)
        self.second = nn.LSTM(5, 6, num_layers=2, dropout=0.2, batch_first=True)
        self.last = nn.Linear(12, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = len_of(x)
        out, _ = self.first(x)
        out, (hidden, _) = self.second(torch.relu(self.between(out)))
        logits: torch.Tensor = self.last(torch.cat([out[:, 0].reshape(n, -1), hidden[-1]], dim=1))
        return logits


def len_of(x: torch.Tensor) -> int:
    """`len(x)` cannot be traced; its shape can."""
    return x.shape[0]


class Transformer(nn.Module):
    """A class token, attention with dropout, a skip around each half of the block, and a mean over the steps."""

    def __init__(self, batch_first: bool = True, width: int = 8) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.embed = nn.Linear(STEPS[1], width)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.norm1 = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, dropout=0.1, batch_first=batch_first)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.last = nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), self.embed(x)], dim=1)
        x = x if self.batch_first else x.transpose(0, 1)
        y = self.norm1(x)
        y, _ = self.attention(y, y, y, need_weights=False)
        x = x + functional.dropout(y, 0.1, training=self.training)
        x = x + self.down(functional.gelu(self.up(self.norm2(x))))
        logits: torch.Tensor = self.last(x).sum(1 if self.batch_first else 0)
        return logits


class Everywhere(nn.Module):
    """One tensor that is used by every layer, in place too, so that its gradient is added up across all cuts."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(5))
        self.same = nn.Identity()
        self.last = nn.Linear(6, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        trunk = self.layers[0](x)
        alias = self.same(trunk)
        out = trunk * 1.0
        for layer in self.layers[1:]:
            out = torch.tanh(layer(out * trunk)) + alias * out
        out += x
        shape = trunk.shape
        logits: torch.Tensor = self.last(out.reshape(shape) * trunk)
        return logits


class Sliced(nn.Module):
    """A tensor beside what dropout makes of it, and a slice, which has gaps in memory and is summed."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(STEPS[1], 99)
        self.drop = nn.Dropout(0.5)
        self.second = nn.Linear(99, 21)
        self.last = nn.Linear(21, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.first(x)
        dropped = self.drop(out)
        every_other = dropped[:, :, ::2]
        out = torch.tanh(self.second(out + dropped))
        logits: torch.Tensor = self.last(out.mean(1)) * every_other.sum(2).sum(1, keepdim=True)
        return logits


class Drawn(nn.Module):
    """A residual network drawn by a property test: each step picks an operation and which earlier tensors to use."""

    def __init__(self, steps: list[tuple[str, int, int]]) -> None:
        super().__init__()
        self.steps = steps
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in steps)
        self.norms = nn.ModuleList(nn.BatchNorm1d(6) for _ in steps)
        self.relu = nn.ReLU(inplace=True)
        self.last = nn.Linear(6, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = [x * 1.0]
        for (kind, i, j), layer, norm in zip(self.steps, self.layers, self.norms, strict=True):
            a, b = seen[i % len(seen)], seen[j % len(seen)]
            out = layer(a)
            if kind == "add":
                out = out + b
            elif kind == "add in place":
                out += b
                out = self.relu(out)
            elif kind == "norm":
                out = norm(out) * b
            elif kind == "dropout":
                out = functional.dropout(out, 0.4, training=self.training) + b
            elif kind == "transposed":
                out = (out.t() * b.t()).t()
            elif kind == "mean":
                out = out.mean(1, keepdim=True).expand(b.shape) + b
            seen.append(torch.tanh(out))
        logits: torch.Tensor = self.last(sum(seen[1:], seen[0]))
        return logits
