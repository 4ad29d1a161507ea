"""Data: what it refuses, and what splits, samples and batches promise, over drawn data."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from modelkeep import Data
from modelkeep.core.errors import DataError, InputError
from modelkeep.core.nest import Leaf, Nest


def _numbered(labels: list[int], classes: int = 4) -> Data:
    """Data whose single feature is the row's number, so that rows can be recognised."""
    x = torch.arange(len(labels), dtype=torch.float32).unsqueeze(1)
    return Data(x, torch.tensor(labels, dtype=torch.int64), tuple(f"class {i}" for i in range(classes)), name="drawn")


def _rows(data: Data) -> list[int]:
    return data.x.flatten().int().tolist()


LABELS = st.lists(st.integers(0, 3), max_size=60)
SEEDS = st.integers(0, 2**31)


@st.composite
def _shares(draw: st.DrawFn) -> tuple[float, ...]:
    weights = draw(st.lists(st.integers(1, 20), min_size=1, max_size=4))
    rest = draw(st.integers(0, 20))
    return tuple(weight / (sum(weights) + rest) for weight in weights)


@given(LABELS, _shares(), SEEDS)
def test_split_gives_disjoint_parts_of_the_right_sizes(labels: list[int], shares: tuple[float, ...], seed: int) -> None:
    data = _numbered(labels)
    parts = data.split(*shares, seed=seed)
    rows = [row for part in parts for row in _rows(part)]
    assert len(set(rows)) == len(rows)
    assert set(rows) <= set(range(len(labels)))
    for part, share in zip(parts, shares, strict=True):
        assert abs(len(part) - share * len(data)) <= 1
        assert [labels[row] for row in _rows(part)] == part.y.tolist()


@given(LABELS, _shares(), SEEDS)
def test_split_keeps_the_share_of_every_class(labels: list[int], shares: tuple[float, ...], seed: int) -> None:
    data = _numbered(labels)
    of_class = Counter(labels)
    for part, share in zip(data.split(*shares, seed=seed), shares, strict=True):
        counts = Counter(part.y.tolist())
        # Both edges of a part are rounded, and classes that interleave can differ by one at each.
        assert all(abs(counts[label] - share * count) <= 2 for label, count in of_class.items())


@given(LABELS, SEEDS)
def test_a_split_of_everything_loses_nothing(labels: list[int], seed: int) -> None:
    parts = _numbered(labels).split(0.5, 0.3, 0.2, seed=seed)
    assert sorted(row for part in parts for row in _rows(part)) == list(range(len(labels)))


@given(LABELS, SEEDS)
def test_split_and_sample_depend_on_the_seed_alone(labels: list[int], seed: int) -> None:
    data = _numbered(labels)
    torch.manual_seed(0)
    first = [_rows(part) for part in data.split(0.7, 0.3, seed=seed)], _rows(data.sample(len(data) // 2, seed))
    torch.manual_seed(1)
    state = torch.get_rng_state()
    second = [_rows(part) for part in data.split(0.7, 0.3, seed=seed)], _rows(data.sample(len(data) // 2, seed))
    assert first == second
    assert torch.equal(state, torch.get_rng_state())  # nothing was drawn from the global generator


@given(LABELS, st.integers(1, 70), st.one_of(st.none(), SEEDS))
def test_batches_hold_every_example_once(labels: list[int], size: int, seed: int | None) -> None:
    data = _numbered(labels)
    batches = list(data.batches(size, seed))
    rows = [int(row) for x, _ in batches for row in x.flatten()]
    assert sorted(rows) == list(range(len(labels)))
    assert [labels[row] for row in rows] == [int(label) for _, y in batches for label in y]
    # An empty split of torch is one empty batch.
    assert all(len(x) == size for x, _ in batches[:-1])
    assert all(len(x) <= size for x, _ in batches)
    if seed is None:
        assert rows == list(range(len(labels)))


def test_another_seed_is_another_order() -> None:
    data = _numbered([0, 1, 2, 3] * 25)
    orders = [[int(row) for x, _ in data.batches(7, seed) for row in x.flatten()] for seed in (0, 1)]
    assert orders[0] != orders[1]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.data())
def test_take_is_indexing(labels: list[int], drawn: st.DataObject) -> None:
    index = drawn.draw(st.lists(st.integers(0, len(labels) - 1), max_size=50))
    taken = _numbered(labels).take(index)
    assert _rows(taken) == index
    assert taken.y.tolist() == [labels[i] for i in index]


@given(LABELS)
def test_of_class_finds_all_of_them(labels: list[int]) -> None:
    assert _rows(_numbered(labels).of_class("class 2")) == [i for i, label in enumerate(labels) if label == 2]


def test_first_and_sample() -> None:
    data = _numbered([0, 1, 2, 3])
    assert _rows(data.first(2)) == [0, 1]
    assert _rows(data.first(9)) == [0, 1, 2, 3]
    assert sorted(_rows(data.sample(4, seed=0))) == [0, 1, 2, 3]


@pytest.mark.parametrize("shares", [(), (0.0, 0.5), (-0.1,), (0.6, 0.5)])
def test_shares_that_make_no_sense(shares: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="shares of a split"):
        _numbered([0, 1]).split(*shares, seed=0)


def test_other_requests_that_make_no_sense() -> None:
    data = _numbered([0, 1, 2])
    with pytest.raises(InputError, match="Cannot draw 4 examples from the 3 of 'drawn'"):
        data.sample(4, seed=0)
    with pytest.raises(InputError, match="at least one example"):
        next(data.batches(0))
    with pytest.raises(InputError, match=r"no class 'cat'\. Its classes: class 0, "):
        data.of_class("cat")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"x": torch.zeros(3, 1, dtype=torch.float64)},
            r"finite float32 numbers\. Got torch.float64 of shape \(3, 1\)",
        ),
        ({"x": torch.zeros(3, 1, dtype=torch.int64)}, "Got torch.int64"),
        ({"x": torch.tensor([[0.0], [torch.nan], [0.0]])}, "with NaN or infinite values"),
        ({"x": torch.tensor([[0.0], [torch.inf], [0.0]])}, "with NaN or infinite values"),
        ({"y": torch.tensor([0.0, 1.0, 2.0])}, "labels of 'drawn' must be int64"),
        ({"y": torch.tensor([0, 1])}, r"of shape \(3,\)\. Got torch.int64 of shape \(2,\)"),
        ({"y": torch.tensor([0, 1, 4])}, r"must lie in 0\.\.3 .* Got 0\.\.4"),
        ({"y": torch.tensor([-1, 1, 2])}, r"Got -1\.\.2"),
        ({"features": ("a", "b")}, r"names 2 features, but its examples have shape \(1,\)"),
        ({"nest": Nest((Leaf("a", (2,)),))}, r"packs 2 numbers, but its examples have shape \(1,\)"),
        ({"bounds": (0.0, 1.0)}, r"lie in \(0.0, 1.0\), but they span \[0.0, 2.0\]"),
    ],
)
def test_data_that_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        replace(_numbered([0, 1, 2]), **change)


def test_fingerprint_knows_values_labels_order_and_names() -> None:
    data = _numbered([0, 1, 2])
    others = [
        replace(data, x=data.x + 1),
        replace(data, y=torch.tensor([0, 1, 1])),
        replace(data, classes=("a", "b", "c", "d")),
        data.take([1, 0, 2]),
        replace(data, x=data.x.reshape(3, 1, 1)),
    ]
    assert len({one.fingerprint() for one in [data, *others]}) == 6
    assert replace(data, name="other", source="elsewhere").fingerprint() == data.fingerprint()
