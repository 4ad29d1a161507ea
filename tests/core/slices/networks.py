"""Networks that are hard to cut: skips, branches, repeats, in-place code, code that torch.fx cannot trace."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

WIDTH = 6
CLASSES = 3


class Residual(nn.Module):
    """A skip around `inner`, added in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.last = nn.Linear(WIDTH, CLASSES)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = self.first(x)
        out = self.inner(skip)
        out += skip
        out *= 2
        out = self.relu(out)
        result: torch.Tensor = self.last(out)
        return result


class Branching(nn.Module):
    """Two branches that meet in a concatenation, and the input used again at the very end."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Sequential(nn.Linear(WIDTH, 4), nn.Tanh())
        self.right = nn.Linear(WIDTH, 5)
        self.last = nn.Linear(9 + WIDTH, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        both = torch.cat([self.left(x), functional.relu(self.right(x))], dim=1)
        result: torch.Tensor = self.last(torch.cat([both, x], dim=1))
        return result


class Twice(nn.Module):
    """One module called twice, and a parameter used by functional code before and after it."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((WIDTH,), 1.5))
        self.shared = nn.Linear(WIDTH, WIDTH)
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sigmoid(self.shared(x * self.scale))
        x = self.shared(x) * self.scale
        result: torch.Tensor = self.last(x.view(x.size(0), -1))
        return result


class Recurrent(nn.Module):
    """An LSTM, whose output is a nest of tensors, of which two are used."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(2, 5, batch_first=True)
        self.last = nn.Linear(10, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps, (hidden, _) = self.lstm(x.view(-1, WIDTH // 2, 2))
        result: torch.Tensor = self.last(torch.cat([steps[:, 0], hidden[-1]], dim=1))
        return result


class Attention(nn.Module):
    """A transformer block, with places inside torch's own module."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.TransformerEncoderLayer(2, 1, dim_feedforward=4, batch_first=True)
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.last(self.block(x.view(-1, WIDTH // 2, 2)).flatten(1))
        return result


class Untraced(nn.Module):
    """A residual network whose path depends on the data, which torch.fx cannot follow."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = Residual()
        self.scale = nn.Parameter(torch.ones(CLASSES))
        self.never = nn.Linear(1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 1e9):
            x = self.never(x)
        result: torch.Tensor = self.inside(x) * self.scale
        return result


class Drawn(nn.Module):
    """A network drawn by a property test: each step picks an operation and which earlier tensors to use."""

    def __init__(self, steps: list[tuple[str, int, int]], traceable: bool) -> None:
        super().__init__()
        self.steps = steps
        self.traceable = traceable
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in steps)
        self.relu = nn.ReLU(inplace=True)
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.traceable and bool(x.sum() > 1e9):
            raise ValueError("never")
        seen = [x * 1.0]
        for (kind, i, j), layer in zip(self.steps, self.layers, strict=True):
            a, b = seen[i % len(seen)], seen[j % len(seen)]
            if kind == "linear":
                seen.append(layer(a))
            elif kind == "add":
                seen.append(layer(a) + b)
            elif kind == "inplace_add":
                a += layer(b)
            elif kind == "inplace_relu":
                seen.append(self.relu(layer(a)))
            elif kind == "relu_on_old":
                self.relu(a)
            else:
                seen.append(torch.tanh(layer(a)) * b)
        result: torch.Tensor = self.last(seen[-1] + seen[0])
        return result
