"""A stored tensor gives the bits of the tensor that it stands for, and reads no more rows than it is asked for."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from modelkeep.core import examples
from modelkeep.core.errors import DataError
from modelkeep.core.examples import Stored, in_parts, mean_and_spread, read, read_ahead, rows_at_once

X = torch.rand(7, 3, 2, generator=torch.Generator().manual_seed(0))


class Counted:
    """Examples in memory that count how many of their rows were read."""

    source = "a test"

    def __init__(self, x: torch.Tensor = X) -> None:
        self.x = x
        self.count = 0
        self.fingerprints: dict[str, str] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.x.shape)

    def rows(self, index: torch.Tensor) -> torch.Tensor:
        self.count += len(index)
        return self.x[index]


@pytest.mark.parametrize(
    "of",
    [
        lambda x: x.mean(dim=0),
        lambda x: x.amax(),
        lambda x: torch.isfinite(x),
        lambda x: x.to(torch.float64),
        lambda x: torch.cat([x, X]),
        lambda x: torch.cat([X, x[2:3]]),
        lambda x: X + x,
        lambda x: x - 1,
        lambda x: nn.functional.linear(x.flatten(1), torch.ones(2, 6)),
        lambda x: torch.ops.aten.mul(x, x),
        lambda x: x[:, 1],
        lambda x: x[2:5, :, 0],
        lambda x: x[..., 0],
        lambda x: x[None],
        lambda x: x[3],
        lambda x: x[-1, 2],
        lambda x: x[X[:, 0, 0] > 0.5],
        lambda x: x[[1, 1, -7]],
        lambda x: x.index_select(1, torch.tensor([2, 0])),
        lambda x: torch.split(x, 2, dim=1)[1],
        lambda x: x.tensor_split(3)[1],
        lambda x: torch.from_numpy(np.asarray(x)),
        lambda x: torch.from_numpy(x.numpy()),
        lambda x: torch.tensor(x.tolist()),
        lambda x: torch.stack(list(x)),
        lambda x: x.clone().add_(1),
        lambda x: x.view(-1),
    ],
)
def test_what_is_computed_on_it_is_what_is_computed_on_the_tensor(of: Callable[[torch.Tensor], Any]) -> None:
    found = read(of(Stored(Counted())))
    assert type(found) is torch.Tensor
    assert torch.equal(found, of(X))


INDEX = st.lists(st.integers(-7, 6), max_size=9).map(lambda rows: torch.tensor(rows, dtype=torch.int64))
CHOICES = st.one_of(
    INDEX.map(lambda index: ("index", index)),
    st.tuples(st.just("slice"), st.slices(7).filter(lambda s: s.step is None or s.step > 0)),
    INDEX.map(lambda index: ("index_select", index % 7)),
)


@given(st.lists(CHOICES, max_size=4))
def test_choices_of_choices_read_only_what_is_left_at_the_end(choices: list[tuple[str, Any]]) -> None:
    source = Counted()
    stored: torch.Tensor = Stored(source)
    plain = X
    for kind, choice in choices:
        n = len(plain)
        rows = choice % max(n, 1) if isinstance(choice, torch.Tensor) else choice
        if n == 0:
            break
        stored = stored.index_select(0, rows) if kind == "index_select" else stored[rows]
        plain = plain.index_select(0, rows) if kind == "index_select" else plain[rows]
        assert isinstance(stored, Stored)
        assert stored.shape == plain.shape
        assert source.count == 0
    assert torch.equal(read(stored), plain)
    assert source.count == len(plain)


@given(st.integers(1, 9))
def test_parts_come_in_order_and_are_read_once(size: int) -> None:
    source = Counted()
    parts = list(in_parts(Stored(source), size))
    assert [part.tolist() for part in parts] == [part.tolist() for part in torch.split(X, size)]
    assert source.count == len(X)
    assert [type(part) for part in parts] == [torch.Tensor] * len(parts)


def test_a_tensor_in_memory_is_one_part() -> None:
    assert [part is X for part in in_parts(X)] == [True]


def test_an_error_of_the_reader_reaches_the_one_who_reads() -> None:
    class Broken(Counted):
        def rows(self, index: torch.Tensor) -> torch.Tensor:
            raise DataError("the disk is gone")

    with pytest.raises(DataError, match="the disk is gone"):
        list(read_ahead(torch.split(Stored(Broken()), 2)))


def test_no_row_of_it_is_changed() -> None:
    stored = Stored(Counted())
    changes: list[Callable[[], Any]] = [
        lambda: stored.add_(1),
        lambda: stored.__setitem__(0, 1.0),
        lambda: stored.requires_grad_(),
        lambda: setattr(stored, "requires_grad", True),
        lambda: torch.add(X, 1, out=stored),
    ]
    for change in changes:
        with pytest.raises(DataError, match="cannot be changed in place"):
            change()


def test_too_much_at_once_is_refused_and_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "MOST_BYTES", 4 * 6 * 5)
    source = Counted()
    with pytest.raises(DataError, match=r"7 examples of a test would need .* data\.sample\(n, seed\).*data\.batches"):
        Stored(source).mean()
    assert source.count == 0
    assert torch.equal(Stored(source)[:5].mean(), X[:5].mean())


def test_rows_that_do_not_exist() -> None:
    with pytest.raises(IndexError, match="There are 7 examples"):
        Stored(Counted())[[7]]
    with pytest.raises(IndexError, match="A mask over 7 examples"):
        Stored(Counted())[torch.ones(6, dtype=torch.bool)]


def test_it_goes_to_other_processes_unread() -> None:
    source = Counted()
    chosen = Stored(source)[[3, 1]]
    assert copy.deepcopy(chosen) is chosen
    again = pickle.loads(pickle.dumps(chosen))  # noqa: S301
    assert source.count == 0
    assert torch.equal(read(again), X[[3, 1]])


def test_moments_of_what_does_not_fit_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1e-3, 1.0, 1e4]) + 100
    mean, spread = mean_and_spread(x)
    assert torch.equal(mean, x.double().mean(dim=0))
    assert torch.equal(spread, x.double().std(dim=0, correction=0))
    whole = mean_and_spread(Stored(Counted(x)))
    assert torch.equal(whole[0], mean)
    monkeypatch.setattr(examples, "MOST_BYTES", 4 * 3 * 20)
    monkeypatch.setattr(examples, "PART_BYTES", 4 * 3 * 7)
    source = Counted(x)
    parts = mean_and_spread(Stored(source))
    torch.testing.assert_close(parts[0], mean, rtol=1e-13, atol=0)
    torch.testing.assert_close(parts[1], spread, rtol=1e-9, atol=0)
    assert source.count == 50


def test_large_examples_are_run_few_at_a_time() -> None:
    assert rows_at_once((3, 32, 32)) == 512
    assert rows_at_once((3, 224, 224)) == 55
    assert rows_at_once((3, 10**4, 10**4)) == 1
