"""What a person wants to see of a data set first: counts, classes, ranges, and pictures where it has some."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.results import Result, Tensor, measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# How much of a long list a person reads, and how much of many classes fits in one picture.
_MOST_LINES = 12
MOST_CLASSES = 10
_PICTURES_PER_CLASS = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class Summary(Result, kind="summary"):
    """Counts, classes, ranges; for images also the first `pictures: (shown classes, k, c, h, w)` of some classes.

    `low`, `high` and `mean` have one value per feature of a table, and one value for anything else. `missing` says
    how often a value is missing, by the feature that indicates it.
    """

    name: str
    source: str
    n: int
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    counts: tuple[int, ...]
    features: tuple[str, ...] | None
    low: tuple[float, ...]
    high: tuple[float, ...]
    mean: tuple[float, ...]
    missing: dict[str, int]
    shown: tuple[str, ...]
    pictures: Tensor | None

    def rows(self) -> list[tuple[str, str]]:
        """A line per property, class and feature; of long lists the beginning."""
        lines = [("data", f"{self.name}, from {self.source}"), ("examples", f"{self.n:,} of shape {self.shape}")]
        counted = zip(self.classes, self.counts, strict=True)
        lines += _first_lines([(f"class {name}", f"{count:,} ({count / self.n:.1%})") for name, count in counted])
        ranges = zip(self.features or ("values",), self.low, self.high, self.mean, strict=True)
        lines += _first_lines([(name, f"{low:g} to {high:g}, mean {mean:.4g}") for name, low, high, mean in ranges])
        if self.features is not None:
            holes = ", ".join(f"{name} ({count:,})" for name, count in self.missing.items())
            lines.append(("missing", holes or "nothing"))
        return lines

    def draw(self) -> Figure:
        """A row of pictures for each of the shown classes."""
        if self.pictures is None:
            return super().draw()
        from matplotlib.figure import Figure

        rows, columns = self.pictures.shape[:2]
        figure = Figure(figsize=(0.8 * columns + 1.5, 0.8 * rows), dpi=120, layout="compressed")
        grid = figure.subplots(rows, columns, squeeze=False)
        for row, name in enumerate(self.shown):
            for column, axes in enumerate(grid[row]):
                axes.set(xticks=[], yticks=[])
                axes.spines[:].set_visible(False)
                picture = self.pictures[row, column].permute(1, 2, 0).numpy()
                axes.imshow(picture[:, :, 0] if picture.shape[2] == 1 else picture, cmap="gray", vmin=0, vmax=1)
            grid[row][0].set_ylabel(name, rotation=0, ha="right", va="center")
        return figure


def summarise(data: Data) -> Summary:
    """Count and measure `data`.

    >>> data = Data(torch.tensor([[1.0], [3.0]]), torch.tensor([0, 1]), ("no", "yes"), features=("age",))
    >>> summarise(data).mean
    (2.0,)
    """
    if len(data) == 0:
        raise InputError(f"'{data.name}' holds no examples to describe.")
    with measured(seed=0, data=data.fingerprint()) as provenance:
        values = data.x if data.features is not None else data.x.reshape(-1, 1)
        missing = {
            name: int(values[:, column].sum())
            for column, name in enumerate(data.features or ())
            if name.endswith((" is missing", "=?"))
        }
        shown, pictures = _pictures(data) if _are_images(data) else ((), None)
        return Summary(
            name=data.name,
            source=data.source,
            n=len(data),
            shape=data.input_shape,
            classes=data.classes,
            counts=tuple(torch.bincount(data.y, minlength=len(data.classes)).tolist()),
            features=data.features,
            low=tuple(values.amin(dim=0).tolist()),
            high=tuple(values.amax(dim=0).tolist()),
            mean=tuple(values.mean(dim=0, dtype=torch.float64).tolist()),
            missing=missing,
            shown=shown,
            pictures=pictures,
            provenance=provenance(),
        )


def _are_images(data: Data) -> bool:
    return len(data.input_shape) == 3 and data.input_shape[0] in (1, 3) and data.bounds == (0.0, 1.0)


def _pictures(data: Data) -> tuple[tuple[str, ...], torch.Tensor]:
    """The first pictures of classes that are evenly spread over the list; black where a class has too few."""
    present = torch.unique(data.y)
    chosen = present[torch.linspace(0, len(present) - 1, min(len(present), MOST_CLASSES)).round().long()]
    pictures = torch.zeros(len(chosen), _PICTURES_PER_CLASS, *data.input_shape)
    for row, label in enumerate(chosen):
        members = torch.nonzero(data.y == label).flatten()[:_PICTURES_PER_CLASS]
        pictures[row, : len(members)] = data.x[members]
    return tuple(data.classes[int(label)] for label in chosen), pictures


def _first_lines(lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
    if len(lines) <= _MOST_LINES:
        return lines
    return [*lines[:_MOST_LINES], ("…", f"and {len(lines) - _MOST_LINES:,} more")]
