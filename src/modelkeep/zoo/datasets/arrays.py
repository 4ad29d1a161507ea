"""Arrays of examples and labels, mapped or in memory, as a `Data`: what bytes mean, what the classes are called."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core.data import Data, describe_bad
from modelkeep.core.errors import DataError
from modelkeep.core.examples import Stored
from modelkeep.zoo.datasets.mapped import Mapped

# Examples that take up to this many bytes as float32 are read into memory, where everything is fastest.
IN_MEMORY = 2**28
UNLABELLED = "unlabelled"


@dataclass
class ArrayExamples:
    """Examples in a mapped array. Bytes of three or more dimensions are pictures and become 0..1."""

    array: Mapped
    features: tuple[str, ...] | None = None
    bounds: tuple[float, float] | None = None
    fingerprints: MutableMapping[str, str] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The file."""
        return str(self.array.path)

    @property
    def shape(self) -> tuple[int, ...]:
        """`(n, ...)`; pictures without channels get one."""
        shape = self.array.shape
        return (shape[0], 1, *shape[1:]) if _is_grey_picture(self.array) else shape

    def rows(self, index: torch.Tensor) -> torch.Tensor:
        """The examples at `index`, checked."""
        numbers = index.numpy()
        start = int(numbers[0]) if len(numbers) else 0
        together = np.array_equal(numbers, np.arange(start, start + len(numbers)))
        x = torch.from_numpy(to_float(self.array.take(slice(start, start + len(numbers)) if together else numbers)))
        if self.array.dtype.kind == "f" and not torch.isfinite(x).all():
            where = describe_bad(x, self.features, index)
            raise DataError(f"The examples of {self.source} must be finite numbers. Got NaN or infinity: {where}.")
        if self.bounds is not None and len(x):
            low, high = float(x.min()), float(x.max())
            if low < self.bounds[0] or high > self.bounds[1]:
                raise DataError(f"{self.source} says its values lie in {self.bounds}, but they span [{low}, {high}].")
        return x


def is_picture(x: NDArray[Any] | Mapped) -> bool:
    """Whether the array holds pictures: bytes, of three or more dimensions."""
    return x.dtype == np.uint8 and len(x.shape) >= 3


def _is_grey_picture(x: NDArray[Any] | Mapped) -> bool:
    return is_picture(x) and len(x.shape) == 3


def to_float(x: NDArray[Any]) -> NDArray[np.float32]:
    """The examples as float32; pictures as `(n, channels, height, width)` in 0..1."""
    if not is_picture(x):
        return x.astype(np.float32)
    pictures: NDArray[np.float32] = np.divide(x, np.float32(255), dtype=np.float32)
    return pictures[:, None] if x.ndim == 3 else pictures


def assemble(
    x: NDArray[Any] | Mapped,
    y: NDArray[Any] | None,
    classes: Sequence[str] | None,
    name: str,
    features: tuple[str, ...] | None = None,
    bounds: tuple[float, float] | None = None,
    *,
    in_memory: int = IN_MEMORY,
    fingerprints: MutableMapping[str, str] | None = None,
) -> Data:
    """Examples and labels as a `Data`. A mapped array stays where it is, where it would need more than `in_memory`."""
    if y is None:
        y, classes = np.zeros(x.shape[0], np.int64), [UNLABELLED]
    if x.dtype.kind not in "fiub" or y.dtype.kind not in "iuUb" or y.ndim != 1:
        raise DataError(
            f"'x' must be numbers and 'y' a list of whole numbers or of class names. Got {x.dtype} {x.shape} and "
            f"{y.dtype} {y.shape}."
        )
    if is_picture(x) and len(x.shape) == 4 and x.shape[1] not in (1, 3, 4) and x.shape[3] in (1, 3, 4):
        raise DataError(
            f"The images have shape {x.shape}, with the channels last. Use x.transpose(0, 3, 1, 2): channels first."
        )
    labels, classes = _number(y, classes)
    bounds = (0.0, 1.0) if is_picture(x) else bounds
    if isinstance(x, Mapped) and 4 * prod(x.shape) > in_memory:
        examples = ArrayExamples(x, features, bounds, fingerprints if fingerprints is not None else {})
        tensor: torch.Tensor = Stored(examples)
    else:
        tensor = torch.from_numpy(to_float(x.all() if isinstance(x, Mapped) else x))
    return Data(tensor, torch.from_numpy(labels), tuple(classes), name, features=features, bounds=bounds)


def _number(y: NDArray[Any], classes: Sequence[str] | None) -> tuple[NDArray[np.int64], Sequence[str]]:
    """The labels as numbers, and the names of the classes."""
    if y.dtype.kind == "U":
        classes = [str(value) for value in np.unique(y)] if classes is None else list(classes)
        unknown = sorted(set(y.tolist()) - set(classes))
        if unknown:
            raise DataError(f"'y' holds {unknown[0]!r}, which is not among the classes {', '.join(classes)}.")
        numbers = {text: number for number, text in enumerate(classes)}
        y = np.array([numbers[text] for text in y.tolist()], dtype=np.int64)
    if classes is None:
        classes = [str(number) for number in range(int(y.max()) + 1)] if len(y) else []
    return y.astype(np.int64), classes
