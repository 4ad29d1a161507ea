"""Fixed point against Python's integers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from modelkeep.core.errors import InputError
from modelkeep.encrypt.shares.ring import ShareRing


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from([2, 8, 63, 64]), st.integers(0, 63))
def test_words_are_integers_modulo_a_power_of_two(number: int, bits: int, by: int) -> None:
    ring = ShareRing(bits, 0)
    word, modulus = torch.tensor([number]), 2**bits
    assert int(ring.reduce(word)) % 2**64 == number % modulus or bits == 64
    if by < bits:
        assert int(ring.shift_right(word, by)) % 2**64 == (number % modulus) >> by
    assert int(ring.shift_left(word, by)) % modulus == (number << by) % modulus
    assert int(ring.low(word)) == (number % modulus) % 2 ** (bits - 1)


@given(st.floats(-1000, 1000))
def test_numbers_come_back_to_half_a_unit(value: float) -> None:
    for ring in (ShareRing(), ShareRing(40, 16)):
        found = ring.decode(ring.encode(torch.tensor([value], dtype=torch.float64)))
        assert abs(float(found) - value) <= 2.0 ** -(ring.fraction + 1)


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="'bits'"):
        ShareRing(65)
    with pytest.raises(InputError, match="0 to 31, with 64 bits"):
        ShareRing(64, 32)
