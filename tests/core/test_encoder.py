"""An encoder gives the same numbers next time, and says by row and column what it cannot encode."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from modelkeep.core.encoder import ColumnCode, Encoder, days_since_1970, read_encoder, write_encoder
from modelkeep.core.errors import DataError

ENCODER = Encoder(
    (
        ColumnCode("size", "number", fill=2.5),
        ColumnCode("colour", "category", ("green", "red"), fill="red"),
        ColumnCode("born", "date", indicator=True),
    ),
    "kind",
    ("no", "yes"),
    {"no": 0, "yes": 1},
    missing="fill",
    ignore=("id",),
)


def _texts(*values: str | None) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    return np.array(values, dtype=object)


def _columns() -> dict[str, np.ndarray[tuple[int], np.dtype[np.object_]]]:
    return {
        "kind": _texts("yes", "no"),
        "born": _texts("1970-01-11", None),
        "id": _texts("p1", "p2"),
        "colour": _texts(None, "green"),
        "size": _texts("1.5", None),
    }


def test_columns_may_stand_in_any_order() -> None:
    x, y = ENCODER.encode(_columns(), "t")
    assert ENCODER.features == ("size", "colour=green", "colour=red", "born", "born is missing")
    assert x.tolist() == [[1.5, 0, 1, 10, 0], [2.5, 1, 0, 0, 1]]
    assert y.tolist() == [1, 0]
    assert x.dtype == np.float32


def test_it_comes_back_from_its_file(tmp_path: Path) -> None:
    path = write_encoder(ENCODER, tmp_path / "model.safetensors")
    assert path.name == "model.encoder.json"
    assert read_encoder(path) == ENCODER
    for damaged in ("[]", "{}", '{"version": 2}', "not JSON"):
        path.write_text(damaged)
        with pytest.raises(DataError, match="cannot be read as an encoder"):
            read_encoder(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": _texts("red", "mauve")}, r"Row 8 of 't' .*column 'colour', holds 'mauve'.*It knows: green, red"),
        ({"size": _texts("1", "big")}, r"Row 8 of 't' .*column 'size', must be a number.*Got 'big'"),
        ({"born": _texts("1970-01-01", "yesterday")}, r"Row 8 .*column 'born', must be a date.*Got 'yesterday'"),
        ({"kind": _texts("yes", "perhaps")}, r"Row 8 of 't' .*the label 'perhaps'.*knows: no, yes"),
        ({"new": _texts("a", "b")}, r"has the column 'new', which was not there"),
    ],
)
def test_what_it_has_not_seen_is_named_by_row_and_column(change: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(DataError, match=message):
        ENCODER.encode(_columns() | change, "t", first_row=7)


def test_a_column_that_is_not_there() -> None:
    columns = _columns()
    del columns["size"]
    with pytest.raises(DataError, match="'t' has no column 'size'"):
        ENCODER.encode(columns, "t")


def test_a_gap_where_there_was_none() -> None:
    with pytest.raises(DataError, match=r"Row 1 of 't' .*column 'a', is missing\. .*missing 'fill'"):
        ColumnCode("a", "number").encode(np.array([1.0, np.nan]), "t")


def test_numbers_that_are_labels_may_be_written_in_two_ways() -> None:
    encoder = Encoder((ColumnCode("a", "number"),), "y", ("1", "2"), {"1": 0, "2": 1}, numbered=True)
    _, y = encoder.encode({"a": _texts("1", "2"), "y": _texts("1.0", "2")}, "t")
    assert y.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "days"),
    [("1970-01-01", 0.0), ("2000-01-01", 10957.0), ("1969-12-31 12:00", -0.5), ("1970-01-01T01:00+01:00", 0.0)],
)
def test_dates_are_days(text: str, days: float) -> None:
    assert days_since_1970(text) == days


@pytest.mark.parametrize("text", ["20000101", "2000", "2000-13-01", "1/2/2000", "2000-W01"])
def test_what_is_not_a_date(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        days_since_1970(text)
