"""Data: examples with labels, names and provenance; seeded splits and batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch

from modelkeep.core.encoder import Encoder
from modelkeep.core.errors import DataError, InputError, unknown_class
from modelkeep.core.examples import Stored, in_parts, read, read_ahead
from modelkeep.core.fingerprint import fingerprint
from modelkeep.core.html import data_html
from modelkeep.core.nest import Nest
from modelkeep.core.tokenizer import Tokenizer


@dataclass(frozen=True, eq=False)
class Data:
    """Examples `x: (n, ...)` float32 with labels `y: (n,)` int64 in `range(len(classes))`.

    `source` says where the data came from; `bounds` is the range that every value of `x` lies in (for images
    usually 0 to 1), or None where there is none; `features` names the columns of a table; `nest` says which tensors
    are packed in a row, and `tokenizer` turns the token ids of a text back into words; `encoder` made the numbers of a
    table and is kept with the model, so that the same column means the same next time.

    `x` may be a `Stored` tensor, whose rows stay on disk until they are read. Batches, splits, samples and
    fingerprints are the same bits as in memory, and `rows` and `batches` give ordinary tensors. What computes on the
    whole of `x` reads it, up to 512 MiB.
    """

    x: torch.Tensor
    y: torch.Tensor
    classes: tuple[str, ...]
    name: str = "data"
    source: str = "memory"
    features: tuple[str, ...] | None = None
    bounds: tuple[float, float] | None = None
    nest: Nest | None = None
    tokenizer: Tokenizer | None = None
    encoder: Encoder | None = None

    def __post_init__(self) -> None:
        x, y = self.x, self.y
        stored = isinstance(x, Stored)  # its values are checked when they are read
        if x.dtype != torch.float32 or not (stored or torch.isfinite(x).all()):
            raise DataError(
                f"The examples of '{self.name}' must be finite float32 numbers. Got {_describe(x, self.features)}."
            )
        if y.dtype != torch.int64 or y.shape != x.shape[:1]:
            raise DataError(
                f"The labels of '{self.name}' must be int64 of shape ({len(x)},). "
                f"Got {y.dtype} of shape {tuple(y.shape)}."
            )
        if len(y) and not (0 <= int(y.min()) and int(y.max()) < len(self.classes)):
            raise DataError(
                f"The labels of '{self.name}' must lie in 0..{len(self.classes) - 1} (one per class name). "
                f"Got {int(y.min())}..{int(y.max())}."
            )
        if self.features is not None and x.shape[1:] != (len(self.features),):
            raise DataError(
                f"'{self.name}' names {len(self.features)} features, but its examples have shape {tuple(x.shape[1:])}."
            )
        if self.nest is not None and x.shape[1:] != (self.nest.width,):
            raise DataError(
                f"The nest of '{self.name}' packs {self.nest.width} numbers, but its examples have shape "
                f"{tuple(x.shape[1:])}. Use nest.pack({{…}})."
            )
        if self.bounds is not None and len(x) and not stored:
            low, high = float(x.min()), float(x.max())
            if low < self.bounds[0] or high > self.bounds[1]:
                raise DataError(f"'{self.name}' says its values lie in {self.bounds}, but they span [{low}, {high}].")

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        return f"Data({self.name!r}, n={len(self)}, shape={self.input_shape}, classes={len(self.classes)})"

    def _repr_html_(self) -> str:
        return data_html(self)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return tuple(self.x.shape[1:])

    def class_index(self, name: str) -> int:
        """The label of the class called `name`."""
        if name not in self.classes:
            raise unknown_class(f"'{self.name}'", name, self.classes)
        return self.classes.index(name)

    def of_class(self, name: str) -> Data:
        """Only the examples of one class."""
        return self.take(torch.nonzero(self.y == self.class_index(name)).flatten())

    def rows(self, index: torch.Tensor | Sequence[int]) -> torch.Tensor:
        """The examples at `index`, in memory: `(len(index), ...)`."""
        chosen: torch.Tensor = read(self.x[torch.as_tensor(index, dtype=torch.int64)])
        return chosen

    def load(self) -> Data:
        """The same data with their examples in memory, for what looks at a few of them again and again."""
        return replace(self, x=read(self.x))

    def take(self, index: torch.Tensor | Sequence[int]) -> Data:
        """The examples at `index`, in that order."""
        chosen = torch.as_tensor(index, dtype=torch.int64)
        return replace(self, x=self.x[chosen], y=self.y[chosen])

    def first(self, n: int) -> Data:
        """The first `n` examples, or all of them where there are fewer."""
        return replace(self, x=self.x[:n], y=self.y[:n])

    def sample(self, n: int, seed: int = 0) -> Data:
        """`n` examples drawn without replacement."""
        if not 0 <= n <= len(self):
            raise InputError(f"Cannot draw {n} examples from the {len(self)} of '{self.name}'.")
        return self.take(_permutation(len(self), seed)[:n])

    def split(self, *shares: float, seed: int = 0) -> tuple[Data, ...]:
        """Disjoint random parts, one per share; every class keeps its share of each part.

        >>> data = Data(torch.zeros(10, 2), torch.tensor([0, 1] * 5), ("a", "b"))
        >>> [len(part) for part in data.split(0.6, 0.4, seed=0)]
        [6, 4]
        """
        if not shares or min(shares) <= 0 or sum(shares) > 1 + 1e-9:
            raise InputError(f"The shares of a split must be positive and sum to at most 1. Got {shares}.")
        order = _permutation(len(self), seed)
        # A stable sort by the rank within the class interleaves the classes evenly: cutting the sorted order
        # anywhere leaves each class with its share, up to one example.
        labels = self.y[order]
        rank = torch.empty(len(self))
        for label in range(len(self.classes)):
            members = torch.nonzero(labels == label).flatten()
            rank[members] = (torch.arange(len(members)) + 0.5) / max(len(members), 1)
        order = order[torch.argsort(rank, stable=True)]
        edges = [round(sum(shares[:i]) * len(self)) for i in range(len(shares) + 1)]
        return tuple(self.take(order[start:end][_permutation(end - start, seed)]) for start, end in pairwise(edges))

    def batches(self, size: int, seed: int | None = None) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Batches of at most `size` examples: in order, or shuffled by `seed`."""
        if size < 1:
            raise InputError(f"A batch holds at least one example. Got size {size}.")
        if seed is None:
            yield from zip(in_parts(self.x, size), torch.split(self.y, size), strict=True)
            return
        order = torch.split(_permutation(len(self), seed), size)
        yield from zip(read_ahead(self.x[index] for index in order), (self.y[index] for index in order), strict=True)

    def fingerprint(self) -> str:
        """A SHA-256 of the examples, the labels and the class names."""
        return fingerprint({"x": self.x, "y": self.y}, *self.classes)


def _permutation(n: int, seed: int) -> torch.Tensor:
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed))


def _describe(x: torch.Tensor, features: Sequence[str] | None) -> str:
    words = f"{x.dtype} of shape {tuple(x.shape)}"
    if not x.dtype.is_floating_point or torch.isfinite(x).all():
        return words
    return f"{words} with NaN or infinite values: {describe_bad(x, features)}"


def describe_bad(x: torch.Tensor, features: Sequence[str] | None = None, rows: torch.Tensor | None = None) -> str:
    """Which values of `x: (n, ...)` are not finite, for a sentence. `rows` are the numbers of the rows.

    >>> describe_bad(torch.tensor([[1.0, 2.0], [torch.nan, 3.0]]), ("age", "height"))
    "row 1, column 'age' is nan (1 such value in 1 row; rows count from 0)"
    """
    bad = torch.nonzero(~torch.isfinite(x))
    first, place = int(bad[0, 0]), tuple(bad[0, 1:].tolist())
    value = float(x[(first, *place)])
    row = first if rows is None else int(rows[first])
    where = f"column {features[place[0]]!r}" if features is not None else f"at {place}"
    if features is None and len(place) == 1:
        where = f"column {place[0]}"
    count, in_rows = len(bad), len(set(bad[:, 0].tolist()))
    return (
        f"row {row}, {where} is {value:g} ({count:,} such value{'s' * (count > 1)} in {in_rows:,} "
        f"row{'s' * (in_rows > 1)}; rows count from 0)"
    )
