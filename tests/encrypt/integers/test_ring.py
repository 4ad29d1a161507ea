"""The ring against Python's own integers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from modelkeep.core.errors import InputError
from modelkeep.encrypt.integers.ring import Ring, shift_right

ANY = st.integers(-(2**63), 2**63 - 1)


def centred(value: int, bits: int) -> int:
    """The representative of least magnitude, by Python's integers."""
    rest = value % (1 << bits)
    return rest - (1 << bits) if rest >= 1 << (bits - 1) else rest


@given(st.integers(1, 62), st.lists(ANY, min_size=1, max_size=5))
def test_wrapping_is_that_of_python(bits: int, values: list[int]) -> None:
    assert Ring(bits).wrap(torch.tensor(values)).tolist() == [centred(each, bits) for each in values]


@given(st.integers(1, 62), st.lists(st.tuples(ANY, ANY), min_size=1, max_size=9))
def test_a_product_that_overflows_64_bits_is_still_right(bits: int, pairs: list[tuple[int, int]]) -> None:
    left, right = (torch.tensor(each) for each in zip(*pairs, strict=True))
    exact = sum(a * b for a, b in pairs)
    assert Ring(bits).matmul(left[None], right[:, None]).item() == centred(exact, bits)


@given(ANY, ANY)
def test_the_smallest_ring_holds_its_ends_and_a_smaller_one_does_not(one: int, other: int) -> None:
    low, high = sorted((one >> 8, other >> 8))
    bits = Ring.holding(low, high).bits
    assert all(centred(each, bits) == each for each in (low, high))
    assert bits == 1 or any(centred(each, bits - 1) != each for each in (low, high))


@given(st.integers(-(2**40), 2**40), st.integers(0, 20))
def test_a_shift_rounds_to_the_nearest(value: int, bits: int) -> None:
    assert shift_right(torch.tensor(value), bits).item() == (2 * value + 2**bits) // 2 ** (bits + 1)


def test_stochastic_rounding_is_exact_in_the_mean() -> None:
    for value in (-13, 0, 5, 8):
        noise = torch.arange(8)  # every draw once
        assert shift_right(torch.full((8,), value), 3, noise).sum().item() == value


def test_floats_are_refused() -> None:
    with pytest.raises(InputError, match="int64"):
        Ring(8).wrap(torch.zeros(2))
    with pytest.raises(InputError, match="from 1 to 62"):
        Ring(63)
