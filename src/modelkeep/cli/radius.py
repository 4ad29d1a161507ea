"""`--radius`: how far an attacker may move an input, as a number, a fraction or in standard deviations of the data."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, sqrt
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from modelkeep import Data

_HELP = "How far an attacker may move an input: 0.1, 8/255, or 0.5sd (standard deviations of the data)."


@dataclass(frozen=True)
class Radius:
    """A radius as it was given; `of` says what it is in the units of the data."""

    number: float
    in_deviations: bool = False

    def of(self, data: Data | None) -> float:
        """The radius in the units of the data. Without data, the bare number, for a first check of its range."""
        return self.number * deviation(data) if self.in_deviations and data is not None else self.number


def read_radius(text: str) -> Radius:
    """The radius that a user wrote.

    >>> read_radius("8/255").number == 8 / 255
    True
    >>> read_radius("0.5sd")
    Radius(number=0.5, in_deviations=True)
    """
    number = text.strip().removesuffix("sd")
    try:
        top, slash, bottom = number.partition("/")
        value = float(top) / float(bottom) if slash else float(top)
    except (ValueError, ZeroDivisionError):
        value = float("nan")
    if not isfinite(value):
        raise typer.BadParameter("Input should be a number such as 0.1, 8/255 or 0.5sd")
    return Radius(value, in_deviations=text.strip().endswith("sd"))


def radius_option(note: str = "", panel: str | None = None) -> Any:
    """The option --radius, the same for every verb; `note` is what its help says beside."""
    told = f"{_HELP} {note}".strip()
    return typer.Option(
        "--radius", parser=read_radius, metavar="NUMBER", help=told, show_default=False, rich_help_panel=panel
    )


def deviation(data: Data) -> float:
    """The standard deviation of the data's values around the mean of their channel, or of their column in a table."""
    import torch

    count = 0
    total = squares = torch.zeros(1, dtype=torch.float64)
    for x, _ in data.batches(512):
        # (n, channels, values of one channel): of a table, each column is a channel of one value
        by_channel = x.double().reshape(len(x), x.shape[1], -1)
        count += by_channel.shape[0] * by_channel.shape[2]
        total = total + by_channel.sum(dim=(0, 2))
        squares = squares + by_channel.square().sum(dim=(0, 2))
    variance = (squares / count - (total / count).square()).clamp(min=0)
    return sqrt(float(variance.mean()))
