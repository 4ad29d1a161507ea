"""Tables in files, as a `Data`: CSV by lines, Parquet by row groups. Large ones are encoded to a file of the cache."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core.data import Data
from modelkeep.core.encoder import Column, Encoder, Missing
from modelkeep.core.errors import DataError, MissingExtra
from modelkeep.core.examples import Stored
from modelkeep.core.files import replace_file
from modelkeep.zoo.datasets.arrays import IN_MEMORY, ArrayExamples
from modelkeep.zoo.datasets.kept import Kept, made_once, stamp
from modelkeep.zoo.datasets.mapped import Mapped, map_npy
from modelkeep.zoo.datasets.tables import known_texts, learn

# Rows that are read at once: few enough for any memory, and enough that what is done once for each is nothing.
ROWS = 20_000


def read_table(
    path: Path,
    label: str,
    *,
    missing: Missing = "refuse",
    ignore: Sequence[str] = (),
    positive: str | None = None,
    encoder: Encoder | None = None,
    in_memory: int = IN_MEMORY,
    cache: str | Path | None = None,
) -> Data:
    """The table in a CSV or Parquet file. With an `encoder`, its columns mean what they meant when it was learned."""
    name = path.stem

    def chunks() -> Iterator[Mapping[str, Column]]:
        return read_csv(path) if path.suffix == ".csv" else read_parquet(path)

    if encoder is None:
        raw = path.suffix == ".csv"
        encoder, rows = learn(chunks(), label, name=name, missing=missing, ignore=ignore, positive=positive, raw=raw)
    else:
        rows = sum(len(next(iter(chunk.values()))) for chunk in chunks())
    encoded = _encode(chunks, encoder, name)
    if 4 * rows * len(encoder.features) > in_memory:
        x, y = _encode_to_disk(path, encoded, encoder, cache)
    else:
        parts = list(encoded())
        x = torch.from_numpy(np.concatenate([x for x, _ in parts]))
        y = np.concatenate([y for _, y in parts])
    if len(y) == 0:
        raise DataError(f"'{name}' has no rows left.")
    return Data(x, torch.from_numpy(y), encoder.classes, name, features=encoder.features, encoder=encoder)


Encoded = Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]


def _encode(chunks: Callable[[], Iterator[Mapping[str, Column]]], encoder: Encoder, name: str) -> Callable[[], Encoded]:
    def encoded() -> Encoded:
        first = 0
        for chunk in chunks():
            yield encoder.encode(chunk, name, first)
            first += len(next(iter(chunk.values())))

    return encoded


def _encode_to_disk(
    path: Path, encoded: Callable[[], Encoded], encoder: Encoder, cache: str | Path | None
) -> tuple[torch.Tensor, NDArray[np.int64]]:
    """The examples in a file of the cache, which is written once, and the labels."""
    key = sha256(f"{stamp([path])}{encoder.to_json()}".encode()).hexdigest()
    examples, _ = made_once(f"{key}.float32", cache)
    labels, ready = made_once(f"{key}.labels.npy", cache)
    if not ready:
        ys = []
        with replace_file(examples) as new, new.open("wb") as file:
            for x, y in encoded():
                x.tofile(file)
                ys.append(y)
        with replace_file(labels) as new, new.open("wb") as file:  # last: it says that both are whole
            np.save(file, np.concatenate(ys))
    y = map_npy(labels).all()
    mapped = Mapped(examples, 0, np.dtype(np.float32), (len(y), len(encoder.features)))
    return Stored(ArrayExamples(mapped, encoder.features, None, Kept(key, cache))), y


def read_csv(path: Path, rows: int = ROWS) -> Iterator[dict[str, Column]]:
    """The columns of a CSV file as texts, some lines at a time."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, strict=True)
            names = [name.strip() for name in next(lines, [])]
            if len(set(names)) != len(names) or "" in names:
                raise DataError(
                    f"The first line of {path.name} must name every column, each differently. Got: {names}."
                )
            first = 2
            while True:
                some = list(islice(lines, rows))
                for number, row in enumerate(some, start=first):
                    if len(row) != len(names):
                        raise DataError(
                            f"Line {number} of {path.name} has {len(row)} values, the header has {len(names)}."
                        )
                if some or first == 2:
                    yield {name: known_texts([row[i] for row in some]) for i, name in enumerate(names)}
                if len(some) < rows:
                    return
                first += len(some)
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as CSV: {error}.") from error


def read_parquet(path: Path, rows: int = ROWS) -> Iterator[dict[str, Column]]:
    """The columns of a Parquet file as numbers or texts, one part of a row group at a time."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise MissingExtra("formats", "pyarrow", "Reading Parquet files") from error
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=rows):
                yield {name: _column(batch.column(i).to_pylist()) for i, name in enumerate(batch.schema.names)}
    except (ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet: {error}.") from error


def _column(values: list[Any]) -> Column:
    if all(value is None or isinstance(value, int | float) for value in values):
        return np.array([np.nan if value is None else float(value) for value in values])
    return np.array([None if value is None else str(value) for value in values], dtype=object)
