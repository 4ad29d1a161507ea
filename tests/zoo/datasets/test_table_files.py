"""Tables in files: the same numbers from CSV and Parquet, from memory and from disk, the first time and the next."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch

from modelkeep.core.encoder import Encoder
from modelkeep.core.errors import DataError
from modelkeep.core.examples import Stored
from modelkeep.zoo import datasets
from modelkeep.zoo.datasets import table_files

HEADER = ["id", "size", "colour", "born", "kind"]
ROWS = [
    ["p1", "1.5", "red", "2000-01-01", "cat"],
    ["p2", "", "green", "2000-01-03", "dog"],
    ["p3", "4.5", "", "", "owl"],
    ["p4", "3", "red", "2001-01-01", "dog"],
]


def _csv(path: Path, rows: list[list[str]] = ROWS) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([HEADER, *rows])
    return path


def _parquet(path: Path) -> Path:
    columns = dict(zip(HEADER, zip(*ROWS, strict=True), strict=True))
    table = pyarrow.table(
        {name: [value or None for value in values] for name, values in columns.items() if name != "size"}
        | {"size": [1.5, None, 4.5, 3.0]}
    )
    pyarrow.parquet.write_table(table.select(HEADER), path, row_group_size=2)
    return path


def test_fill_puts_the_mean_or_the_most_frequent(tmp_path: Path) -> None:
    data = datasets.open(_csv(tmp_path / "t.csv"), label="kind", ignore=["id"], missing="fill")
    assert data.features == ("size", "colour=green", "colour=red", "born")
    days = [10957.0, 10959.0, (10957 + 10959 + 11323) / 3, 11323.0]
    expected = [[1.5, 0, 1, days[0]], [3.0, 1, 0, days[1]], [4.5, 0, 1, days[2]], [3.0, 0, 1, days[3]]]
    np.testing.assert_array_equal(data.x.numpy(), np.array(expected, np.float32))
    assert data.classes == ("cat", "dog", "owl")


def test_one_label_is_positive(tmp_path: Path) -> None:
    path = _csv(tmp_path / "t.csv")
    data = datasets.open(path, label="kind", ignore=["id"], missing="fill", positive="dog")
    assert (data.classes, data.y.tolist()) == (("not dog", "dog"), [0, 1, 0, 1])
    two = datasets.open(_csv(path, ROWS[:2]), label="kind", ignore=["id"], missing="fill", positive="cat")
    assert (two.classes, two.y.tolist()) == (("dog", "cat"), [1, 0])
    with pytest.raises(DataError, match=r"No label in 'kind' of 't' is 'cow'\. There are: cat, dog"):
        datasets.open(path, label="kind", ignore=["id"], missing="fill", positive="cow")


@pytest.mark.parametrize("missing", ["indicate", "fill", "drop"])
@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_it_does_not_matter_where_a_table_lies_or_how_it_is_read(
    tmp_path: Path, missing: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [_csv(tmp_path / "t.csv"), _parquet(tmp_path / "t.parquet")]
    settings = {"label": "kind", "ignore": ["id"], "missing": missing, "cache": tmp_path}
    whole = [datasets.open(file, **settings) for file in files]  # type: ignore[arg-type]
    monkeypatch.setattr(table_files.read_csv, "__defaults__", (rows,))
    monkeypatch.setattr(table_files.read_parquet, "__defaults__", (rows,))
    for file in files:
        for in_memory in (0, 10**9):
            data = datasets.open(file, in_memory=in_memory, **settings)  # type: ignore[arg-type]
            assert isinstance(data.x, Stored) == (in_memory == 0)
            assert data.features == whole[0].features
            assert data.fingerprint() == whole[0].fingerprint() == whole[1].fingerprint()
            assert data.encoder == whole[0].encoder


def test_the_next_table_means_the_same(tmp_path: Path) -> None:
    first = datasets.open(_csv(tmp_path / "a.csv"), label="kind", ignore=["id"], missing="fill")
    assert first.encoder is not None
    encoder = Encoder.from_json(first.encoder.to_json())
    path = _csv(tmp_path / "b.csv", [["p9", "", "green", "1970-01-02", "owl"]])
    for in_memory in (0, 10**9):
        data = datasets.open(path, encoder=encoder, in_memory=in_memory, cache=tmp_path)
        assert data.x.tolist() == [[3.0, 1, 0, 1.0]]
        assert (data.classes, data.y.tolist()) == (("cat", "dog", "owl"), [2])
        assert torch.equal(data.x + 0, data.load().x)
    with pytest.raises(DataError, match=r"Row 0 of 'b' .*column 'colour', holds 'blue'"):
        datasets.open(_csv(path, [["p9", "1", "blue", "1970-01-02", "owl"]]), encoder=encoder)


def test_a_gap_is_named_by_row_and_column(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"size \(1\), colour \(1\), born \(1\)\. .*in row 1 .*column 'size'"):
        datasets.open(_csv(tmp_path / "t.csv"), label="kind", ignore=["id"])


def test_numbers_of_a_csv_that_end_in_a_text_are_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.csv").write_text("a,label\n1.0,x\n2,y\nmany,x\n")
    monkeypatch.setattr(table_files.read_csv, "__defaults__", (1,))
    assert datasets.open(tmp_path / "t.csv").features == ("a=1.0", "a=2", "a=many")
