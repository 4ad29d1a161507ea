"""Tables: one-hot with names, missing values never guessed; properties over drawn tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkeep.core.encoder import Column
from modelkeep.core.errors import DataError
from modelkeep.zoo.datasets.tables import MOST_CATEGORIES, column, encode

TEXTS = st.sampled_from(["red", "green", "blue", None])
NUMBERS = st.one_of(st.floats(-1e6, 1e6, width=32), st.none())


def _columns(colour: list[str | None], size: list[float | None], label: list[str]) -> dict[str, Column]:
    return {
        "colour": np.array(colour, dtype=object),
        "size": np.array([np.nan if value is None else value for value in size]),
        "kind": np.array(label, dtype=object),
    }


@given(st.lists(st.tuples(TEXTS, NUMBERS, st.sampled_from("ab")), min_size=1, max_size=30))
def test_nothing_is_lost(rows: list[tuple[str | None, float | None, str]]) -> None:
    """From the features one can read back every value, and where one was missing."""
    colour, size, label = (list(values) for values in zip(*rows, strict=True))
    data = encode(_columns(colour, size, label), "kind", name="t", missing="indicate")
    assert data.features is not None
    for row, (wanted_colour, wanted_size, wanted_label) in enumerate(rows):
        values = dict(zip(data.features, data.x[row].tolist(), strict=True))
        hot = [name for name, value in values.items() if name.startswith("colour=") and value == 1]
        assert hot == [f"colour={wanted_colour or '?'}"]
        assert values["size"] == (0 if wanted_size is None else np.float32(wanted_size))
        assert values.get("size is missing", 0.0) == float(wanted_size is None)
        assert data.classes[data.y[row]] == wanted_label


@given(st.lists(st.tuples(TEXTS, NUMBERS, st.sampled_from("ab")), min_size=1, max_size=30))
def test_drop_leaves_out_just_the_rows_with_gaps(rows: list[tuple[str | None, float | None, str]]) -> None:
    colour, size, label = (list(values) for values in zip(*rows, strict=True))
    whole = [row for row in rows if None not in row]
    if not whole:
        with pytest.raises(DataError, match="no rows left"):
            encode(_columns(colour, size, label), "kind", name="t", missing="drop")
        return
    data = encode(_columns(colour, size, label), "kind", name="t", missing="drop")
    assert [data.classes[int(y)] for y in data.y] == [row[2] for row in whole]


def test_missing_values_are_refused_by_default_and_counted() -> None:
    columns = _columns(["red", None, None], [1.0, None, 2.0], ["a", "b", "a"])
    with pytest.raises(DataError, match=r"missing values in: colour \(2\), size \(1\)\. Say what to do .*indicate"):
        encode(columns, "kind", name="t")


def test_a_missing_label_is_refused_unless_rows_are_dropped() -> None:
    columns = {"size": np.array([1.0, 2.0]), "kind": np.array(["a", None], dtype=object)}
    with pytest.raises(DataError, match="label column 'kind' of 't' has 1 missing"):
        encode(columns, "kind", name="t", missing="indicate")
    assert len(encode(columns, "kind", name="t", missing="drop")) == 1


def test_numbers_are_not_scaled() -> None:
    data = encode({"size": np.array([1000.0, -3.5]), "kind": np.array([0.0, 1.0])}, "kind", name="t")
    assert data.x.flatten().tolist() == [1000.0, -3.5]
    assert data.bounds is None


def test_whole_numbers_are_classes_in_their_order() -> None:
    data = encode({"size": np.zeros(4), "kind": np.array([10.0, 2.0, 10.0, 2.0])}, "kind", name="t")
    assert data.classes == ("2", "10")
    assert data.y.tolist() == [1, 0, 1, 0]


def test_a_label_of_fractions_is_a_regression() -> None:
    with pytest.raises(DataError, match=r"holds fractions such as 0\.5"):
        encode({"size": np.zeros(2), "kind": np.array([0.5, 1.0])}, "kind", name="t")


def test_an_unknown_label_lists_the_columns() -> None:
    with pytest.raises(DataError, match=r"no column 'class' for the label\. Its columns: size, kind"):
        encode({"size": np.zeros(2), "kind": np.zeros(2)}, "class", name="t")


def test_a_table_of_only_labels() -> None:
    with pytest.raises(DataError, match="no columns beside the label left"):
        encode({"kind": np.zeros(2)}, "kind", name="t")


def test_identifiers_are_not_one_hot() -> None:
    names = np.array([f"person {i}" for i in range(MOST_CATEGORIES + 1)], dtype=object)
    with pytest.raises(DataError, match=r"looks like a name or a date .* ignore=\('who',\)"):
        encode({"who": names, "kind": np.zeros(len(names))}, "kind", name="t")


@pytest.mark.parametrize("text", ["", " ", "?", "NA", "n/a", "NaN", "null", "None"])
def test_what_stands_for_missing(text: str) -> None:
    assert np.isnan(column(["1", text])[1].astype(float))
    assert column(["red", text])[1] is None
