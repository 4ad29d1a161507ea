"""Data sets of other libraries: what is read of them, and what is refused. Bits against memory are in test_arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from modelkeep.core.errors import DataError
from modelkeep.zoo import datasets


class Table:
    """A Hugging Face Dataset of three rows."""

    def __init__(self, **columns: list[Any]) -> None:
        self.columns = columns
        self.features = dict.fromkeys(columns)

    def __len__(self) -> int:
        return 3

    def __getitem__(self, key: str | list[int]) -> Any:
        if isinstance(key, str):
            return self.columns[key]
        return {name: [values[row] for row in key] for name, values in self.columns.items()}


@pytest.mark.parametrize("in_memory", [0, 10**9])
def test_columns_of_numbers_are_a_table(in_memory: int) -> None:
    table = Table(age=[1.5, 2.5, 3.5], size=[4, 5, 6], label=["yes", "no", "yes"])
    data = datasets.from_huggingface(table, in_memory=in_memory)
    assert (data.features, data.classes, data.y.tolist()) == (("age", "size"), ("no", "yes"), [1, 0, 1])
    assert data.x.tolist() == [[1.5, 4], [2.5, 5], [3.5, 6]]
    assert datasets.from_huggingface(table, x=["size"], in_memory=in_memory).x.tolist() == [[4], [5], [6]]


def test_a_column_of_vectors_is_taken_as_it_is() -> None:
    data = datasets.from_huggingface(Table(v=[[1, 2], [3, 4], [5, 6]], kind=[0, 1, 1]), label="kind")
    assert data.x.tolist() == [[1, 2], [3, 4], [5, 6]]


def test_what_is_refused() -> None:
    with pytest.raises(DataError, match=r"no column 'label' for the label\. Its columns: a, b"):
        datasets.from_huggingface(Table(a=[1, 2, 3], b=[1, 2, 3]))
    with pytest.raises(DataError, match="no column 'c'"):
        datasets.from_huggingface(Table(a=[1, 2, 3], label=[0, 1, 0]), x="c")
    with pytest.raises(DataError, match="must be pictures or numbers"):
        datasets.from_huggingface(Table(a=["u", "v", "w"], label=[0, 1, 0]))
    with pytest.raises(DataError, match="row 1, column 0 is nan"):
        datasets.from_huggingface(Table(a=[1.0, np.nan, 2.0], label=[0, 1, 0]))
    with pytest.raises(DataError, match="must have one shape"):
        datasets.from_huggingface(Table(a=[[1], [1, 2], [2]], label=[0, 1, 0]))


class Random(Dataset[tuple[torch.Tensor, int]]):
    """A Dataset with a random transform."""

    targets = (0, 1, 1)

    def __len__(self) -> int:
        return 3

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        return torch.rand(2), self.targets[row]


def test_examples_that_change_are_not_left_where_they_are() -> None:
    with pytest.raises(DataError, match=r"gives another example each time.*augmentation"):
        datasets.from_torch(Random(), in_memory=0)


class Still(Random):
    """The same, without it, that counts."""

    def __init__(self, targets: tuple[int, ...]) -> None:
        self.targets = targets  # type: ignore[assignment]
        self.asked = 0

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        self.asked += 1
        return torch.full((2,), float(row)), (0, 1, 1)[row]


def test_labels_are_the_targets_where_these_are_right() -> None:
    right, wrong = Still((0, 1, 1)), Still((1, 1, 1))
    assert [datasets.from_torch(each, in_memory=0).y.tolist() for each in (right, wrong)] == [[0, 1, 1]] * 2
    assert right.asked == wrong.asked - 2  # one that is wrong at once, three to find out the labels, less two


def test_nothing_is_asked_for_before_it_is_used() -> None:
    dataset = Still((0, 1, 1))
    data = datasets.from_torch(dataset, in_memory=0)
    before = dataset.asked
    assert data.sample(2, seed=0).take([1]).rows([0]).shape == (1, 2)
    assert dataset.asked == before + 1
