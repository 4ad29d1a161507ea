"""From columns of numbers and texts to a `Data`: one-hot with named features, nothing scaled, nothing guessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core.data import Data
from modelkeep.core.errors import DataError

# A column is numbers (float64, NaN where missing) or texts (object, None where missing).
Column = NDArray[np.float64] | NDArray[np.object_]
Missing = Literal["refuse", "indicate", "drop"]

# What stands for "missing" in text files.
_MISSING_TEXTS = frozenset(("", "?", "na", "n/a", "nan", "null", "none"))
# A text column with more different values than this is a name, an address or a date, not a category.
MOST_CATEGORIES = 200


def column(texts: Sequence[str]) -> Column:
    """A column as read from a text file: numbers where all texts are, else the texts without outer blanks.

    >>> column(["1", "2.5", "?"])
    array([1. , 2.5, nan])
    >>> column(["red ", "NA"])
    array(['red', None], dtype=object)
    """
    stripped = [text.strip() for text in texts]
    known = [None if text.lower() in _MISSING_TEXTS else text for text in stripped]
    try:
        return np.array([np.nan if text is None else float(text) for text in known])
    except ValueError:
        return np.array(known, dtype=object)


def encode(columns: Mapping[str, Column], label: str, *, name: str, missing: Missing = "refuse") -> Data:
    """The columns as a `Data` with the classes of the column `label`.

    Numbers stay as they are. A text column becomes one 0/1 feature per value, called `column=value`. With
    `missing="indicate"` a missing number becomes 0 and a 1 in the additional feature `column is missing`, a missing
    text becomes a 1 in `column=?`; with "drop" the row is left out; with "refuse" it is an error.
    """
    if label not in columns:
        raise DataError(f"'{name}' has no column '{label}' for the label. Its columns: {', '.join(columns)}.")
    gaps = {key: _absent(values) for key, values in columns.items()}
    if gaps[label].any() and missing != "drop":
        raise DataError(
            f"The label column '{label}' of '{name}' has {int(gaps[label].sum())} missing values. "
            "Give those rows a label, or leave out rows with missing values with missing='drop'."
        )
    holes = {key: int(gap.sum()) for key, gap in gaps.items() if gap.any()}
    if holes and missing == "refuse":
        counts = ", ".join(f"{key} ({count})" for key, count in holes.items())
        raise DataError(
            f"'{name}' has missing values in: {counts}. Say what to do with them: missing='indicate' keeps the rows "
            "and adds a feature that says where a value is missing, missing='drop' leaves the rows out."
        )
    if missing == "drop":
        keep = ~np.any(list(gaps.values()), axis=0)
        columns = {key: values[keep] for key, values in columns.items()}
    parts = [_features(key, values, name) for key, values in columns.items() if key != label]
    x = [feature for part in parts for feature in part.values()]
    if not x or len(x[0]) == 0:
        raise DataError(f"'{name}' has no {'rows' if x else 'columns beside the label'} left.")
    y, classes = _labels(columns[label], label, name)
    return Data(
        torch.from_numpy(np.stack(x, axis=1).astype(np.float32)),
        torch.from_numpy(y),
        classes,
        name,
        features=tuple(feature for part in parts for feature in part),
    )


def _absent(values: Column) -> NDArray[np.bool_]:
    if values.dtype == object:
        return np.array([value is None for value in values])
    return np.isnan(values.astype(np.float64))


def _features(key: str, values: Column, name: str) -> dict[str, NDArray[np.float64]]:
    """The features that one column becomes, by name."""
    absent = _absent(values)
    if values.dtype != object:
        numbers = values.astype(np.float64)
        if not absent.any():
            return {key: numbers}
        return {key: np.where(absent, 0.0, numbers), f"{key} is missing": absent.astype(np.float64)}
    texts = np.where(absent, "?", values).astype(str)
    levels = np.unique(texts)
    if len(levels) > MOST_CATEGORIES:
        raise DataError(
            f"The column '{key}' of '{name}' has {len(levels)} different texts, such as '{levels[0]}'. It looks like "
            f"a name or a date and not like a category; leave it out with ignore=('{key}',)."
        )
    return {f"{key}={level}": (texts == level).astype(np.float64) for level in levels}


def _labels(values: Column, label: str, name: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    levels, y = np.unique(values if values.dtype != object else values.astype(str), return_inverse=True)
    numbers = levels.dtype.kind == "f"
    if numbers and not np.array_equal(levels, np.round(levels)):
        raise DataError(
            f"The label column '{label}' of '{name}' holds fractions such as {levels[0]:g}. ModelKeep owns "
            "classifiers: choose a column of classes, or cut the numbers into ranges first."
        )
    return y.astype(np.int64), tuple(str(int(level)) if numbers else str(level) for level in levels)
