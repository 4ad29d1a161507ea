"""Data sets of other libraries, as a `Data`: a torch or a Hugging Face `Dataset`. Large ones stay where they are.

Hugging Face's library is not imported: `HuggingFaceDataset` says what a data set of its kind must be able to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from modelkeep.core import progress
from modelkeep.core.data import Data, describe_bad
from modelkeep.core.errors import DataError
from modelkeep.core.examples import Stored
from modelkeep.zoo.datasets.arrays import IN_MEMORY, assemble, is_picture, to_float
from modelkeep.zoo.datasets.photos import GREY_MODES, picture_array


class HuggingFaceDataset(Protocol):
    """What is used of `datasets.Dataset`: its columns with their types, and rows by a list of numbers."""

    @property
    def features(self) -> Any:
        """The type of each column, by its name."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any, /) -> Any: ...


class _Elsewhere:
    """Examples that a function gives, as an array of one type and shape."""

    def __init__(self, n: int, give: Callable[[list[int]], NDArray[Any]], source: str) -> None:
        self._give = give
        self.source = source
        self.fingerprints: dict[str, str] = {}
        first, again = give([0]), give([0])
        if not np.array_equal(first, again):
            raise DataError(
                f"{source} gives another example each time it is asked for the first one. Leave out its random "
                "transform: Recipe(augmentation=…) does that at training."
            )
        self.dtype, self._of_one = first.dtype, first.shape[1:]
        self.shape = (n, *to_float(first).shape[1:])
        self.picture = is_picture(first)

    def rows(self, index: torch.Tensor) -> torch.Tensor:
        """The examples at `index`, checked."""
        if not len(index):
            return torch.empty(0, *self.shape[1:])
        array = self._give(index.tolist())
        if array.dtype != self.dtype or array.shape[1:] != self._of_one:
            raise DataError(
                f"The examples of {self.source} must have one type and shape. The first has {self.dtype} "
                f"{self._of_one}, others have {array.dtype} {array.shape[1:]}."
            )
        x = torch.from_numpy(to_float(array))
        if not torch.isfinite(x).all():
            where = describe_bad(x, rows=index)
            raise DataError(f"The examples of {self.source} must be finite numbers. Got NaN or infinity: {where}.")
        return x


def from_torch(
    dataset: Dataset[Any], *, classes: Sequence[str] | None = None, name: str = "data", in_memory: int = IN_MEMORY
) -> Data:
    """The examples of a torch Dataset of pairs (tensor, label).

    The class names are `classes`, else the dataset's own attribute `classes`, else the numbers. Examples that take up
    to `in_memory` bytes are read into memory, more are asked for when they are used; then the labels are the
    dataset's own attribute `targets`, or are found by going through it once.

    >>> from torch.utils.data import TensorDataset
    >>> from_torch(TensorDataset(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])), classes=("no", "yes"))
    Data('data', n=4, shape=(2,), classes=2)
    """
    count = len(dataset) if hasattr(dataset, "__len__") else None
    named = classes if classes is not None else getattr(dataset, "classes", None)
    named = None if named is None else list(named)
    if count and 4 * count * prod(_example(dataset[0]).shape) > in_memory:
        examples = _Elsewhere(count, lambda rows: _stack([_example(dataset[row]) for row in rows]), f"'{name}'")
        return _stored(examples, _targets(dataset, count, name), named, name)
    xs, ys = [], []
    with progress.task(f"read {name}", total=count) as task:
        # By index where there is a length: a Dataset need not know how to end an iteration.
        for pair in (dataset[index] for index in range(count)) if count is not None else iter(dataset):
            xs.append(_example(pair))
            ys.append(int(pair[1]))
            task.advance()
    if not xs:
        raise DataError("The examples of the torch Dataset must have one shape. Got no examples.")
    return assemble(_stack(xs), np.array(ys), named, name)


def from_huggingface(
    dataset: HuggingFaceDataset,
    *,
    x: str | Sequence[str] | None = None,
    label: str = "label",
    shape: tuple[int, ...] | None = None,
    name: str = "data",
    in_memory: int = IN_MEMORY,
) -> Data:
    """The examples of a Hugging Face Dataset.

    Args:
        dataset: A `datasets.Dataset`, which has a length (not a stream).
        x: The column with pictures or arrays, or several columns of numbers, which become the features of a table.
            Without it, the only column of pictures, or all columns but the label.
        label: The column with the class.
        shape: (channels, height, width) that pictures are brought to, cropped in the middle and scaled.
        name: What the data are called.
        in_memory: Examples that take up to this many bytes are read into memory; more are asked for when they are used.
    """
    types = dict(dataset.features)
    if label not in types:
        raise DataError(f"'{name}' has no column '{label}' for the label. Its columns: {', '.join(types)}.")
    columns = _columns(types, x, label, name)
    fit = None if shape is None else (shape[1], shape[2])
    colour = None if shape is None else shape[0] == 3

    def give(rows: list[int]) -> NDArray[Any]:
        batch = dataset[rows]
        found = [_stack([_array(value, name, colour, fit) for value in batch[column]]) for column in columns]
        return found[0] if len(found) == 1 and found[0].ndim > 1 else np.stack(found, axis=1)

    examples = _Elsewhere(len(dataset), give, f"'{name}'")
    y = np.asarray(list(dataset[label]))
    features = tuple(columns) if len(examples.shape) == 2 and examples.shape[1] == len(columns) else None
    data = _stored(examples, y, getattr(types[label], "names", None), name, features)
    if 4 * prod(examples.shape) > in_memory:
        return data
    return Data(data.x + 0, data.y, data.classes, name, features=features, bounds=data.bounds)


def _columns(types: dict[str, Any], x: str | Sequence[str] | None, label: str, name: str) -> list[str]:
    """The columns that hold the examples."""
    if x is not None:
        columns = [x] if isinstance(x, str) else list(x)
    else:
        pictures = [column for column, kind in types.items() if type(kind).__name__ == "Image"]
        columns = pictures if len(pictures) == 1 else [column for column in types if column != label]
    if missing := [column for column in columns if column not in types]:
        raise DataError(f"'{name}' has no column '{missing[0]}'. Its columns: {', '.join(types)}.")
    return columns


def _stored(
    examples: _Elsewhere,
    y: NDArray[Any],
    classes: Sequence[str] | None,
    name: str,
    features: tuple[str, ...] | None = None,
) -> Data:
    """The labels and names as `assemble` reads them, with the examples left where they are."""
    nothing = np.empty((len(y), 0), np.float32)
    read = assemble(nothing, y, classes, name)
    bounds = (0.0, 1.0) if examples.picture else None
    return Data(Stored(examples), read.y, read.classes, name, features=features, bounds=bounds)


def _example(pair: Any) -> NDArray[Any]:
    x = pair[0]
    if not isinstance(x, torch.Tensor):
        raise DataError(
            f"The examples of the torch Dataset must be tensors. Got {type(x).__name__}. For pictures, give "
            "the Dataset the transform torchvision.transforms.ToTensor()."
        )
    array: NDArray[Any] = x.numpy()
    return array


def _array(value: Any, name: str, colour: bool | None, fit: tuple[int, int] | None) -> NDArray[Any]:
    if hasattr(value, "convert"):  # a picture of Pillow
        as_it_is = value.mode not in GREY_MODES
        return picture_array(f"A picture of '{name}'", value, as_it_is if colour is None else colour, fit=fit)
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise DataError(f"The examples of '{name}' must be pictures or numbers. Got {array.dtype}: {value!r:.60}.")
    return array


def _stack(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    if len({array.shape for array in arrays}) > 1:
        shapes = sorted({array.shape for array in arrays})
        raise DataError(f"The examples of a Dataset must have one shape. Got {shapes}.")
    return np.stack(arrays)


def _targets(dataset: Any, count: int, name: str) -> NDArray[np.int64]:
    """The labels: the attribute `targets` where it says what the examples say, else what the examples say."""
    given = getattr(dataset, "targets", None)
    if given is not None and len(given) == count:
        y = np.asarray(given)
        if y.dtype.kind in "iu" and all(int(dataset[row][1]) == int(y[row]) for row in (0, count - 1)):
            return y.astype(np.int64)
    labels = np.empty(count, np.int64)
    with progress.task(f"read the labels of {name}", total=count) as task:
        for row in range(count):
            labels[row] = int(dataset[row][1])
            task.advance()
    return labels
