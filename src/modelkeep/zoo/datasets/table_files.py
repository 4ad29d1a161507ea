"""Tables in files: the columns of a CSV or Parquet file."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from modelkeep.core.errors import DataError, MissingExtra
from modelkeep.zoo.datasets.tables import Column, column


def read_csv(path: Path) -> dict[str, Column]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header, *rows = list(csv.reader(file, strict=True)) or [[]]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as CSV: {error}.") from error
    names = [name.strip() for name in header]
    if len(set(names)) != len(names) or "" in names:
        raise DataError(f"The first line of {path.name} must name every column, each differently. Got: {names}.")
    for number, row in enumerate(rows, start=2):
        if len(row) != len(names):
            raise DataError(f"Line {number} of {path.name} has {len(row)} values, the header has {len(names)}.")
    return {name: column([row[i] for row in rows]) for i, name in enumerate(names)}


def read_parquet(path: Path) -> dict[str, Column]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise MissingExtra("formats", "pyarrow", "Reading Parquet files") from error
    try:
        table = parquet.read_table(path)
    except (ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet: {error}.") from error
    columns: dict[str, Column] = {}
    for name in table.column_names:
        values = table[name].to_pylist()
        numbers = all(value is None or isinstance(value, int | float) for value in values)
        columns[name] = (
            np.array([np.nan if value is None else float(value) for value in values])
            if numbers
            else np.array([None if value is None else str(value) for value in values], dtype=object)
        )
    return columns
