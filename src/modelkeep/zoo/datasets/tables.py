"""From columns of numbers, texts and dates to a `Data`: one-hot, with named features, nothing scaled or guessed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core.data import Data
from modelkeep.core.encoder import (
    ABSENT,
    Column,
    ColumnCode,
    Encoder,
    Missing,
    days_since_1970,
    find_gaps,
    number_text,
)
from modelkeep.core.errors import DataError, Remedy, bad_parameter, did_you_mean

# What stands for "missing" in text files.
_MISSING_TEXTS = frozenset(("", "?", "na", "n/a", "nan", "null", "none"))
# A text column with more different values than this is a name, an address or a date, not a category.
MOST_CATEGORIES = 200


def known_texts(texts: Sequence[str]) -> NDArray[np.object_]:
    """Texts of a file without outer blanks, None where they say that a value is missing."""
    stripped = [text.strip() for text in texts]
    return np.array([None if text.lower() in _MISSING_TEXTS else text for text in stripped], dtype=object)


def column(texts: Sequence[str]) -> Column:
    """A column as read from a text file: numbers where all texts are, else the texts without outer blanks.

    >>> column(["1", "2.5", "?"])
    array([1. , 2.5, nan])
    >>> column(["red ", "NA"])
    array(['red', None], dtype=object)
    """
    known = known_texts(texts)
    try:
        return np.array([np.nan if text is None else float(text) for text in known])
    except ValueError:
        return known


def encode(columns: Mapping[str, Column], label: str, *, name: str, missing: Missing = "refuse") -> Data:
    """The columns as a `Data` with the classes of the column `label`; see `learn`."""
    encoder, _ = learn([columns], label, name=name, missing=missing)
    x, y = encoder.encode(columns, name)
    return Data(
        *(torch.from_numpy(x), torch.from_numpy(y)), encoder.classes, name, features=encoder.features, encoder=encoder
    )


def learn(
    chunks: Iterable[Mapping[str, Column]],
    label: str,
    *,
    name: str,
    missing: Missing = "refuse",
    ignore: Sequence[str] = (),
    positive: str | None = None,
    raw: bool = False,
) -> tuple[Encoder, int]:
    """Which numbers the columns of a table become, and how many of its rows are left; goes through it once.

    Numbers stay as they are, dates become days since 1970, and a text column becomes one 0/1 feature per value, called
    `column=value`. Missing values are an error with `missing="refuse"`. With "indicate" a missing number becomes 0 and
    a 1 in the additional feature `column is missing`, a missing text becomes a 1 in `column=?`. With "fill" it becomes
    the column's mean, or its most frequent text. With "drop" the row is left out. `positive` is the label that becomes
    class 1; all others are class 0. Columns of a `raw` text file are texts that may all be numbers.
    """
    if missing not in ("refuse", "indicate", "fill", "drop"):
        raise bad_parameter("datasets.open", "missing", "'refuse', 'indicate', 'fill' or 'drop'", missing)
    seen: dict[str, _Seen] = {}
    rows = 0
    for chunk in chunks:
        if unknown := [key for key in ignore if key not in chunk]:
            raise DataError(f"'{name}' has no column '{unknown[0]}' to ignore. Its columns: {', '.join(chunk)}.")
        if label not in chunk:
            meant = did_you_mean(label, chunk)
            raise DataError(f"'{name}' has no column '{label}' for the label.{meant} Its columns: {', '.join(chunk)}.")
        used = {key: values for key, values in chunk.items() if key not in ignore}
        if missing == "drop":
            keep = ~np.any([find_gaps(values) for values in used.values()], axis=0)
            used = {key: values[keep] for key, values in used.items()}
        for key, values in used.items():
            seen.setdefault(key, _Seen(key, raw)).add(values, rows)
        rows += len(used[label])
    if label not in seen:
        raise DataError(f"'{name}' has no rows left.")
    labels = seen.pop(label)
    _refuse_gaps(labels, seen, name, missing)
    if not seen or rows == 0:
        raise DataError(f"'{name}' has no {'rows' if seen else 'columns beside the label'} left.")
    classes, class_of = _classes(labels, name, positive)
    codes = tuple(each.code(name, missing) for each in seen.values())
    return Encoder(codes, label, classes, class_of, labels.numeric, missing, tuple(ignore)), rows


@dataclass
class _Seen:
    """What a pass over a column has shown of it so far."""

    name: str
    raw: bool
    numeric: bool = True
    dates: bool = True
    gaps: int = 0
    first_gap: int | None = None
    count: int = 0
    total: float = 0.0
    days: float = 0.0
    texts: Counter[str] = field(default_factory=Counter)
    numbers: set[float] = field(default_factory=set)

    def add(self, values: Column, first_row: int) -> None:
        """Look at some more rows."""
        gaps = find_gaps(values)
        if gaps.any() and self.first_gap is None:
            self.first_gap = first_row + int(gaps.argmax())
        self.gaps += int(gaps.sum())
        known = values[~gaps]
        self.count += len(known)
        if values.dtype != object:
            self.dates = self.dates and not len(known)
            self._add_numbers(known.astype(np.float64))
            return
        if len(self.texts) <= MOST_CATEGORIES:
            self.texts.update(known.tolist())
        self.numeric = self.numeric and self.raw
        if self.numeric:
            try:
                self._add_numbers(np.array([float(text) for text in known]))
            except ValueError:
                self.numeric = False
        if self.dates:
            try:
                self.days += sum(days_since_1970(text) for text in known)
            except ValueError:
                self.dates = False

    def _add_numbers(self, numbers: NDArray[np.float64]) -> None:
        self.total += float(numbers.sum())
        if len(self.numbers) <= MOST_CATEGORIES:
            self.numbers.update(numbers.tolist())

    def code(self, table: str, missing: Missing) -> ColumnCode:
        """What the column becomes."""
        fills = missing == "fill" and self.count > 0
        if self.numeric:
            indicator = missing == "indicate" and self.gaps > 0
            return ColumnCode(self.name, "number", (), indicator, self.total / self.count if fills else None)
        if self.dates and self.count:
            indicator = missing == "indicate" and self.gaps > 0
            return ColumnCode(self.name, "date", (), indicator, self.days / self.count if fills else None)
        shows_gaps = missing == "indicate" and self.gaps > 0
        levels = sorted({*self.texts, ABSENT} if shows_gaps else self.texts)
        if len(levels) > MOST_CATEGORIES:
            raise DataError(
                f"The column '{self.name}' of '{table}' has more than {MOST_CATEGORIES} different texts, such as "
                f"'{levels[0]}'. It looks like a name or a date and not like a category; leave it out with",
                remedy=Remedy(f"ignore=('{self.name}',).", f"--ignore '{self.name}'."),
            )
        most = min(self.texts, key=lambda text: (-self.texts[text], text)) if fills else None
        return ColumnCode(self.name, "category", tuple(levels), False, most)


def _refuse_gaps(labels: _Seen, seen: Mapping[str, _Seen], name: str, missing: Missing) -> None:
    if labels.gaps:
        raise DataError(
            f"The label column '{labels.name}' of '{name}' has {labels.gaps} missing values, the first in row "
            f"{labels.first_gap} (counted from 0). Give those rows a label, or leave out rows with missing values with",
            remedy=Remedy("missing='drop'.", "--missing drop."),
        )
    holes = [each for each in seen.values() if each.gaps]
    if holes and missing == "refuse":
        counts = ", ".join(f"{each.name} ({each.gaps})" for each in holes)
        first = min(holes, key=lambda each: each.first_gap or 0)
        where = f" The first one is in row {first.first_gap} (counted from 0), column '{first.name}'."
        raise DataError(
            f"'{name}' has missing values in: {counts}. Say what to do with them:",
            remedy=Remedy(_choices("missing='{}'") + where, _choices("--missing {}") + where),
        )


def _choices(form: str) -> str:
    """What can be done with missing values; `form` is how the choice is written."""
    return (
        f"{form.format('indicate')} keeps the rows and adds a feature that says where a value is missing, "
        f"{form.format('fill')} puts the mean or the most frequent text there, "
        f"{form.format('drop')} leaves the rows out."
    )


def _classes(labels: _Seen, name: str, positive: str | None) -> tuple[tuple[str, ...], dict[str, int]]:
    """The names of the classes, and which of them each value of the label column is."""
    if labels.numeric:
        if fractions := sorted(number for number in labels.numbers if number != round(number)):
            raise DataError(
                f"The label column '{labels.name}' of '{name}' holds fractions such as {fractions[0]:g}. ModelKeep "
                "owns classifiers: choose a column of classes, or cut the numbers into ranges first."
            )
        levels = [number_text(number) for number in sorted(labels.numbers)]
    else:
        levels = sorted(labels.texts)
    if len(levels) > MOST_CATEGORIES:
        raise DataError(
            f"The label column '{labels.name}' of '{name}' has more than {MOST_CATEGORIES} different values, such as "
            f"'{levels[0]}'. Choose a column of classes."
        )
    return number_classes(levels, positive, f"'{labels.name}' of '{name}'")


def number_classes(levels: Sequence[str], positive: str | None, column: str) -> tuple[tuple[str, ...], dict[str, int]]:
    """The names of the classes, and the number of each label; with `positive`, that one is 1 and all others are 0.

    >>> number_classes(["bad", "fair", "good"], "good", "'quality'")
    (('not good', 'good'), {'bad': 0, 'fair': 0, 'good': 1})
    """
    if positive is None:
        return tuple(levels), {level: number for number, level in enumerate(levels)}
    if positive not in levels:
        raise DataError(f"No label in {column} is '{positive}'. There are: {', '.join(levels)}.")
    others = [level for level in levels if level != positive]
    negative = others[0] if len(others) == 1 else f"not {positive}"
    return (negative, positive), {level: int(level == positive) for level in levels}
