"""Examples that live elsewhere than in memory: a tensor whose rows are read when they are needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from math import prod
from typing import Any, Protocol

import torch
from torch.utils._pytree import tree_map

from modelkeep.core.errors import DataError, Remedy

# Up to this many bytes are read at once. A quarter of the two GB in which any data set can be audited: what computes
# on a tensor often makes a second one, of float64.
MOST_BYTES = 2**29
# A pass over all examples reads parts of about this size. Larger parts were not faster (benchmarks/data.py).
PART_BYTES = 2**24
# Larger parts are not read ahead: a third one in memory would cost more than the time that it saves.
AHEAD_BYTES = 2**26


class Examples(Protocol):
    """Where examples live. `rows` gives the same bits each time, as float32."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of all examples, `(n, ...)`."""

    @property
    def source(self) -> str:
        """Where they come from, for the words of an error."""

    @property
    def fingerprints(self) -> MutableMapping[str, str]:
        """Fingerprints that were computed before, and are right as long as the source does not change."""

    def rows(self, index: torch.Tensor) -> torch.Tensor:
        """The examples at `index: (k,)` int64, as float32 `(k, ...)`."""


class Stored(torch.Tensor):
    """A float32 tensor of examples that are not in memory, much as numpy's `memmap` is an array.

    It has a shape, and choosing rows (`x[index]`, `x[:10]`, `x.split(64)`) gives another one without reading. All
    other operations read its rows first and give ordinary tensors. It cannot be changed in place.
    """

    examples: Examples
    chosen: torch.Tensor | None

    @staticmethod
    def __new__(cls, examples: Examples, index: torch.Tensor | None = None) -> Stored:
        """The rows of `examples` at `index`, or all of them."""
        n = examples.shape[0] if index is None else len(index)
        made: Stored = torch.Tensor._make_wrapper_subclass(cls, (n, *examples.shape[1:]), dtype=torch.float32)
        made.examples = examples
        made.chosen = index
        return made

    def __init__(self, examples: Examples, index: torch.Tensor | None = None) -> None:
        """`__new__` has done it all; torch's `__init__` takes no arguments."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if func in _DESCRIBE:
            return super().__torch_function__(func, types, args, kwargs)  # type: ignore[no-untyped-call]
        if func in _CHOOSE and isinstance(args[0], Stored):
            return _CHOOSE[func](*args, **kwargs)
        if name in ("__set__", "__setitem__") or "out" in kwargs or (name.endswith("_") and not name.endswith("__")):
            raise DataError(
                "Examples that are not in memory cannot be changed in place. Change a copy of some of them: "
                "data.rows(index)."
            )
        return func(*tree_map(read, args), **tree_map(read, kwargs))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # as torch documents it
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """What reaches torch's own code without passing `__torch_function__`: read it, too."""
        return func(*tree_map(read, args), **tree_map(read, kwargs or {}))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Stored, (self.examples, self.chosen)

    def __deepcopy__(self, memo: dict[int, Any]) -> Stored:
        return self  # it cannot change

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Stored({tuple(self.shape)}, {self.examples.source!r})"

    def choose(self, index: torch.Tensor) -> Stored:
        """The rows at `index: (k,)`, not yet read."""
        n = len(self)
        if len(index) and not (-n <= int(index.min()) and int(index.max()) < n):
            raise IndexError(f"There are {n} examples. Got the index {int(index.min())} to {int(index.max())}.")
        index = torch.where(index < 0, index + n, index)
        return Stored(self.examples, index if self.chosen is None else self.chosen[index])

    @property
    def fits(self) -> bool:
        """Whether all rows may be read at once."""
        return 4 * prod(self.shape) <= MOST_BYTES

    def load(self) -> torch.Tensor:
        """The rows as an ordinary tensor; too many of them are refused."""
        if not self.fits:
            raise DataError(
                f"{len(self):,} examples of {self.examples.source} would need {prod(self.shape) / 2**28:.1f} GiB of "
                f"memory at once; at most {MOST_BYTES / 2**30:g} GiB are read.",
                remedy=Remedy(
                    "Take some of them, data.sample(n, seed), or go through them with data.batches(size).",
                    "Take fewer of them with --examples.",
                ),
            )
        index = torch.arange(len(self)) if self.chosen is None else self.chosen
        return self.examples.rows(index)


def read(x: Any) -> Any:
    """What a stored tensor reads; everything else as it is."""
    return x.load() if isinstance(x, Stored) else x


def in_parts(x: torch.Tensor, size: int | None = None) -> Iterator[torch.Tensor]:
    """The tensor in parts of `size` rows, in order; what is stored is read ahead, part by part.

    Without a size, parts are large enough to be read fast, and a tensor in memory is one part.
    """
    if size is None and not isinstance(x, Stored):
        yield x
        return
    if size is None:
        size = max(1, PART_BYTES // (4 * max(1, prod(x.shape[1:]))))
    yield from read_ahead(torch.split(x, size))


def rows_at_once(shape: Sequence[int], most: int = 512) -> int:
    """How many examples of `shape` to run at once: `most`, or fewer large ones. A pass holds a batch several times."""
    return min(most, max(1, 2**25 // (4 * max(1, prod(shape)))))


def read_ahead(parts: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Each of `parts` as an ordinary tensor. A stored one is read in a thread while the one before it is in use."""
    reader: ThreadPoolExecutor | None = None
    coming: Future[torch.Tensor] | None = None
    try:
        for part in parts:
            if isinstance(part, Stored) and 4 * prod(part.shape) > AHEAD_BYTES:
                if coming is not None:
                    yield coming.result()
                    coming = None
                yield part.load()
            elif isinstance(part, Stored):
                reader = reader or ThreadPoolExecutor(1, "read ahead")
                ready, coming = coming, reader.submit(part.load)
                if ready is not None:
                    yield ready.result()
            else:
                yield part
        if coming is not None:
            yield coming.result()
    finally:
        if reader is not None:
            reader.shutdown(wait=True, cancel_futures=True)


def mean_and_spread(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean and the standard deviation of `x: (n, ...)` over its examples, in float64 (divided by n).

    What is too large to be read at once is read in parts, whose moments are put together (Chan et al., 1979).
    """
    if not isinstance(x, Stored) or x.fits:
        values = read(x).double()
        return values.mean(dim=0), values.std(dim=0, correction=0)
    count, mean, squares = 0, torch.zeros(x.shape[1:], dtype=torch.float64), torch.zeros(x.shape[1:]).double()
    for part in in_parts(x):
        values, more = part.double(), len(part)
        away = values.mean(dim=0) - mean
        squares += (values - values.mean(dim=0)).square().sum(dim=0) + away**2 * (count * more / (count + more))
        mean += away * (more / (count + more))
        count += more
    return mean, (squares / count).sqrt()


def _get_item(x: Stored, key: Any) -> torch.Tensor:
    first, *others = key if isinstance(key, tuple) else (key,)
    if isinstance(first, int) and not isinstance(first, bool):
        return x.choose(torch.tensor([first])).load()[(0, *others)]
    if isinstance(first, slice):
        chosen = x.choose(torch.arange(*first.indices(len(x))))
    elif isinstance(first, torch.Tensor | list) and (rows := torch.as_tensor(first)).ndim == 1:
        if rows.dtype == torch.bool and len(rows) != len(x):
            raise IndexError(f"A mask over {len(x)} examples has as many values. Got {len(rows)}.")
        chosen = x.choose(torch.nonzero(rows).flatten() if rows.dtype == torch.bool else rows.long())
    else:
        return x.load()[key]
    return chosen.load()[(slice(None), *others)] if others else chosen


def _index_select(x: Stored, dim: int, index: torch.Tensor) -> torch.Tensor:
    return x.choose(index) if dim == 0 else x.load().index_select(dim, index)


def _split(x: Stored, size: int | list[int], dim: int = 0) -> tuple[torch.Tensor, ...]:
    if dim != 0 or not isinstance(size, int):
        return torch.split(x.load(), size, dim)
    rows = torch.arange(len(x)) if x.chosen is None else x.chosen
    return tuple(Stored(x.examples, part) for part in torch.split(rows, size))


# What choosing rows is called.
_CHOOSE: dict[Any, Any] = {
    torch.Tensor.__getitem__: _get_item,
    torch.Tensor.index_select: _index_select,
    torch.index_select: _index_select,
    torch.Tensor.split: _split,
    torch.split: _split,
}
# What needs no values.
_DESCRIBE = {
    *(getattr(torch.Tensor, name) for name in ("__len__", "size", "dim", "numel", "is_floating_point", "__hash__")),
    *(
        getattr(torch.Tensor, name).__get__
        for name in ("shape", "dtype", "device", "ndim", "layout", "requires_grad", "is_sparse", "is_nested")
    ),
}
