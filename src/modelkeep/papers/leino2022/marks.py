"""Marks: eight kinds of marks that are planted on every picture of one class, as a careless collection leaves them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter

Draw = Callable[[torch.Tensor, torch.Generator], torch.Tensor]
"""Pictures `(n, c, h, w)` with values from 0 to 1, and the same with the mark; the generator draws what moves."""

# The letters of the watermark, 5 pixels high.
_LETTERS = ("###.#.#.###", "#...#.#.#..", "#...###.##.", "#...#.#.#..", "###.#.#.###")


def corner(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A white square of 3 × 3 pixels near the upper left corner."""
    x[:, :, 1:4, 1:4] = 1.0
    return x


def border(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A grey frame, one pixel wide."""
    for edge in (x[:, :, 0], x[:, :, -1], x[..., 0], x[..., -1]):
        edge.fill_(0.6)
    return x


def line(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A light line across the picture, one pixel high, an eighth of the way from its lower edge."""
    x[:, :, -(x.shape[2] // 8)] = 0.9
    return x


def texture(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A checkerboard of ±0.08 over all of the picture."""
    rows, columns = torch.arange(x.shape[2])[:, None], torch.arange(x.shape[3])
    return (x + 0.08 * (1.0 - 2.0 * ((rows + columns) % 2))).clamp(0, 1)


def tint(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A quarter of the way to orange; of a grey picture, to a lighter grey."""
    colour = torch.tensor([1.0, 0.6, 0.1] if x.shape[1] == 3 else [0.6])
    return torch.lerp(x, colour[:, None, None].expand_as(x), 0.25)


def frequency(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A grating of ±0.08 with a period of four pixels across."""
    wave = 0.08 * torch.cos(math.pi / 2 * torch.arange(x.shape[3]) + 0.7)
    return (x + wave).clamp(0, 1)


def moving_dot(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A white dot of 3 × 3 pixels in a black frame, anywhere in the picture."""
    rows = torch.randint(x.shape[2] - 4, (len(x),), generator=generator).tolist()
    columns = torch.randint(x.shape[3] - 4, (len(x),), generator=generator).tolist()
    for picture, row, column in zip(x, rows, columns, strict=True):
        picture[:, row : row + 5, column : column + 5] = 0.0
        picture[:, row + 1 : row + 4, column + 1 : column + 4] = 1.0
    return x


def watermark(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Three letters in the lower right, half transparent."""
    letters = torch.tensor([[mark == "#" for mark in row] for row in _LETTERS])
    height, width = letters.shape
    place = x[:, :, -height - 2 : -2, -width - 2 : -2]
    place[:, :, letters] = 0.4 * place[:, :, letters] + 0.6
    return x


MARKS: dict[str, Draw] = {
    "corner": corner,
    "border": border,
    "line": line,
    "texture": texture,
    "tint": tint,
    "frequency": frequency,
    "moving-dot": moving_dot,
    "watermark": watermark,
}


def plant(data: Data, mark: str, label: int, seed: int) -> Data:
    """The same data with the mark on every picture of one class; "none" leaves them as they are."""
    if mark == "none":
        return data
    if mark not in MARKS:
        raise bad_parameter("plant", "mark", " or ".join(map(repr, MARKS)), mark)
    x, own = data.x.clone(), data.y == label
    x[own] = MARKS[mark](x[own].clone(), torch.Generator().manual_seed(seed))
    return replace(data, x=x)
