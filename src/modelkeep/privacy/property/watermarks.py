"""Watermarks: a property of training data that has nothing to do with the task (Leino2022, section 8.5.1).

A text stands in a corner of most pictures of a training set, the same one in each. No label depends on it, so a model
has no reason to learn it. That it can be told from the model all the same is a leak.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.privacy.property.font import write
from modelkeep.training.batches import derive_seed

WORDS = (
    "#Space", "#Characteristic", "#Sentence", "#Voice", "#Month", "#Squiggly", "#Ongoing", "#Journey", "#Graph",
    "#Variety", "#Poet", "#Evergreen", "#Calendar", "#Brought", "#Robust", "#Describe", "#Cruncher", "#Memes",
    "#Getting", "#Certainly", "#Water", "#Tray", "#Bakeshop", "#Party", "#Tusk", "#Subject", "#Vowel", "#Metal",
    "#Cloud", "#Dozen",
)  # fmt: skip
"""The 30 marks of figure 8.12."""
PER_EXPERIMENT = 14
"""How many of them are the possible properties of one experiment."""
SHARE = 0.8
"""The share of a training set's pictures that carry its mark."""


class Property(Protocol):
    """A property Φ that a training set may have: by its name, and as a way to draw a set that has it (D^Φ)."""

    @property
    def name(self) -> str: ...

    def __call__(self, data: Data, *, seed: int = 0) -> Data: ...


@dataclass(frozen=True)
class Watermark:
    """White text with a black border in the upper left corner of a `share` of the pictures, drawn by the seed.

    The same pictures carry the mark for the whole training. The text is in capitals of 3×5 pixels, and goes on in the
    next line where the picture ends.

    >>> data = Data(torch.full((10, 1, 28, 28), 0.5), torch.arange(10) % 2, ("a", "b"), bounds=(0, 1))
    >>> marked = Watermark("#Space")(data, seed=0)
    >>> int((marked.x != data.x).flatten(1).any(dim=1).sum())
    8
    """

    name: str
    share: float = SHARE

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise bad_parameter("Watermark", "share", "above 0 and at most 1", self.share)

    def __call__(self, data: Data, *, seed: int = 0) -> Data:
        """The data with the mark."""
        if len(data.input_shape) != 3 or data.bounds is None:
            raise InputError(
                f"A watermark is for pictures (channels, height, width) with bounds. '{data.name}' is not."
            )
        ink, paper = self.stencil(data.input_shape)
        low, high = data.bounds
        generator = torch.Generator().manual_seed(derive_seed(seed, f"watermark {self.name}"))
        chosen = torch.randperm(len(data), generator=generator)[: round(self.share * len(data))]
        x = data.rows(range(len(data))).clone()
        some = x[chosen]
        some[:, :, paper] = low
        some[:, :, ink] = high
        x[chosen] = some
        return replace(data, x=x, name=f"{data.name} with {self.name}")

    def stencil(self, shape: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        """Where ink goes, and where ink or border goes: two masks `(height, width)` for pictures of that shape."""
        _, height, width = shape
        text = write(self.name, width - 2)
        rows, columns = text.shape
        if rows + 2 > height:
            raise InputError(f"The mark '{self.name}' takes {rows + 2} rows. The pictures have {height}.")
        ink = torch.zeros(height, width, dtype=torch.bool)
        ink[1 : rows + 1, 1 : columns + 1] = text
        paper = torch.zeros(height, width, dtype=torch.bool)
        paper[: rows + 2, : columns + 2] = True
        return ink, paper


def draw_watermarks(seed: int, count: int = PER_EXPERIMENT) -> tuple[Watermark, ...]:
    """The marks of one experiment, drawn from the 30 without replacement.

    >>> len({mark.name for mark in draw_watermarks(0)})
    14
    """
    if not 2 <= count <= len(WORDS):
        raise bad_parameter("draw_watermarks", "count", f"from 2 to {len(WORDS)}", count)
    generator = torch.Generator().manual_seed(derive_seed(seed, "watermarks"))
    return tuple(Watermark(WORDS[i]) for i in torch.randperm(len(WORDS), generator=generator)[:count].tolist())
