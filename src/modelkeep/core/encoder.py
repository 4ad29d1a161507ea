"""Encoder: which numbers the columns of a table become. A model keeps it, so that they mean the same next time."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from modelkeep.core.errors import DataError, join_names
from modelkeep.core.files import replace_file

# A column is numbers (float64, NaN where missing) or texts (object, None where missing).
Column = NDArray[np.float64] | NDArray[np.object_]
Missing = Literal["refuse", "indicate", "fill", "drop"]
Kind = Literal["number", "category", "date"]
ABSENT = "?"
"""What a missing category is called among the others."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?")


@dataclass(frozen=True)
class ColumnCode:
    """What one column becomes: a number, one 0/1 feature per category, or a date's days since 1970.

    `indicator` adds a feature that says where a number is missing; `fill` is what stands for a missing value.
    """

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()
    indicator: bool = False
    fill: float | str | None = None

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features, in their order."""
        if self.kind == "category":
            return tuple(f"{self.name}={level}" for level in self.levels)
        return (self.name, f"{self.name} is missing") if self.indicator else (self.name,)

    def encode(self, values: Column, table: str, first_row: int = 0) -> NDArray[np.float64]:
        """The features `(rows, features)` of the column's values."""
        gaps = find_gaps(values)
        if gaps.any() and not self._takes_gaps:
            raise DataError(
                f"Row {first_row + int(gaps.argmax())} of '{table}' (counted from 0), column '{self.name}', is "
                "missing. The encoder has nothing to put there: it was learned on a column without missing values. "
                "Leave out such rows (missing 'drop'), or learn with missing values filled in (missing 'fill')."
            )
        if self.kind == "category":
            return self._one_hot(np.where(gaps, self.fill or ABSENT, values.astype(object)), table, first_row)
        fill = 0.0 if self.fill is None else float(self.fill)
        numbers = np.where(gaps, fill, self._numbers(values, table, first_row))
        return np.stack([numbers, gaps.astype(np.float64)], axis=1) if self.indicator else numbers[:, None]

    @property
    def _takes_gaps(self) -> bool:
        return self.fill is not None or self.indicator or ABSENT in self.levels

    def _numbers(self, values: Column, table: str, first_row: int) -> NDArray[np.float64]:
        parse = days_since_1970 if self.kind == "date" else float
        if values.dtype != object:
            return values.astype(np.float64)
        numbers = np.full(len(values), np.nan)
        for row, value in enumerate(values):
            if value is not None:
                try:
                    numbers[row] = parse(value)
                except ValueError as error:
                    raise DataError(
                        f"Row {first_row + row} of '{table}' (counted from 0), column '{self.name}', must be a "
                        f"{self.kind}, as it was when the encoder was learned. Got '{value}'."
                    ) from error
        return numbers

    def _one_hot(self, texts: NDArray[Any], table: str, first_row: int) -> NDArray[np.float64]:
        places = {level: place for place, level in enumerate(self.levels)}
        hot = np.zeros((len(texts), len(self.levels)))
        for row, text in enumerate(texts):
            if text not in places:
                raise DataError(
                    f"Row {first_row + row} of '{table}' (counted from 0), column '{self.name}', holds '{text}', which "
                    f"was not there when the encoder was learned. It knows: {join_names(self.levels)}."
                )
            hot[row, places[text]] = 1.0
        return hot


@dataclass(frozen=True)
class Encoder:
    """The codes of all columns in their order, and which class each value of the `label` column stands for.

    `numbered` says that the labels are whole numbers, so that "1" and "1.0" are the same.
    """

    columns: tuple[ColumnCode, ...]
    label: str
    classes: tuple[str, ...]
    class_of: Mapping[str, int]
    numbered: bool = False
    missing: Missing = "refuse"
    ignore: tuple[str, ...] = ()

    @property
    def features(self) -> tuple[str, ...]:
        """The names of all features, in their order."""
        return tuple(feature for column in self.columns for feature in column.features)

    def encode(
        self, columns: Mapping[str, Column], table: str, first_row: int = 0
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The examples `(n, features)` and their labels. The columns may stand in any order."""
        wanted = [self.label, *(column.name for column in self.columns)]
        if lacking := [name for name in wanted if name not in columns]:
            raise DataError(f"'{table}' has no column '{lacking[0]}'. Its columns: {join_names(tuple(columns))}.")
        if new := [name for name in columns if name not in wanted and name not in self.ignore]:
            raise DataError(
                f"'{table}' has the column '{new[0]}', which was not there when the encoder was learned. Leave it out "
                f"of the table, or ignore it."
            )
        columns = {name: columns[name] for name in wanted}
        if self.missing == "drop":
            keep = ~np.any([find_gaps(values) for values in columns.values()], axis=0)
            columns = {name: values[keep] for name, values in columns.items()}
        x = np.concatenate([code.encode(columns[code.name], table, first_row) for code in self.columns], axis=1)
        return x.astype(np.float32), self._labels(columns[self.label], table, first_row)

    def _labels(self, values: Column, table: str, first_row: int) -> NDArray[np.int64]:
        y = np.empty(len(values), np.int64)
        for row, value in enumerate(values):
            text = number_text(value) if self.numbered else str(value)
            if text not in self.class_of:
                raise DataError(
                    f"Row {first_row + row} of '{table}' (counted from 0) has the label '{text}' in '{self.label}'. "
                    f"The encoder knows: {join_names(tuple(self.class_of))}."
                )
            y[row] = self.class_of[text]
        return y

    def to_json(self) -> str:
        """All of it as JSON, from which it can be read again."""
        return json.dumps({"version": 1, **asdict(self)}, indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Encoder:
        """The encoder that `to_json` wrote."""
        try:
            found = json.loads(text)
            if found.pop("version") != 1 or found["missing"] not in get_args(Missing):
                raise ValueError("its version is not known")
            columns = tuple(ColumnCode(**{**c, "levels": tuple(c["levels"])}) for c in found.pop("columns"))
            classes, ignore = tuple(found.pop("classes")), tuple(found.pop("ignore"))
            return cls(columns=columns, classes=classes, ignore=ignore, **found)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"This is not an encoder as ModelKeep writes it: {error}.") from error


def read_encoder(path: Path) -> Encoder:
    """The encoder in a file."""
    try:
        return Encoder.from_json(path.read_text(encoding="utf-8"))
    except (OSError, DataError) as error:
        raise DataError(f"{path} cannot be read as an encoder: {error}") from error


def write_encoder(encoder: Encoder, model: Path) -> Path:
    """Keep the encoder beside a model's file, as MODEL.encoder.json, where it is found again."""
    path = model.with_suffix(".encoder.json")
    with replace_file(path) as new:
        new.write_text(encoder.to_json(), encoding="utf-8")
    return path


def find_gaps(values: Column) -> NDArray[np.bool_]:
    """Where a value is missing."""
    if values.dtype == object:
        return np.array([value is None for value in values], dtype=bool)
    return np.isnan(values.astype(np.float64))


def days_since_1970(text: str) -> float:
    """A date, or a date and time, in ISO 8601. Without a zone it is UTC.

    >>> days_since_1970("1970-01-02T12:00")
    1.5
    """
    if not _DATE.fullmatch(text):
        raise ValueError(f"not a date: {text}")
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() / 86400


def number_text(value: Any) -> str:
    """A whole number as text, without a point; anything else as it is."""
    try:
        number = float(value)
        return str(int(number)) if number == int(number) else str(value)
    except (ValueError, OverflowError, TypeError):
        return str(value)
