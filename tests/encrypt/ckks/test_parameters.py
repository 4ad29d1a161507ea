"""Insecure or senseless parameters are refused; the table agrees with SEAL's own."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkeep.core.errors import InputError
from modelkeep.encrypt.ckks.parameters import SECURE_BITS, Parameters, choose
from modelkeep.encrypt.ckks.scheme import seal


def test_the_table_is_seals_own() -> None:
    for degree, bits in SECURE_BITS.items():
        assert seal.CoeffModulus.MaxBitCount(degree, seal.SEC_LEVEL_TYPE.TC128) == bits


@pytest.mark.parametrize(
    ("degree", "primes", "scale", "says"),
    [
        (8192, (60, 60, 60, 60), 30, "not secure"),
        (5000, (40, 40), 30, "degree"),
        (8192, (50,), 30, "two primes"),
        (8192, (50, 10, 50), 30, "15 to 60 bits"),
        (8192, (50, 36, 40), 30, "largest"),
        (8192, (40, 36, 40), 40, "scale"),
    ],
)
def test_what_is_refused(degree: int, primes: tuple[int, ...], scale: int, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Parameters(degree, primes, scale)


@given(depth=st.integers(0, 12), scale=st.integers(20, 45), slots=st.integers(1, 16384))
def test_what_is_chosen_is_the_smallest_secure_ring(depth: int, scale: int, slots: int) -> None:
    chosen = choose(depth, scale_bits=scale, slots=slots)
    assert (chosen.depth, chosen.scale_bits) == (depth, scale)
    assert chosen.bits <= SECURE_BITS[chosen.degree]
    assert chosen.slots >= slots
    half = chosen.degree // 2
    assert half not in SECURE_BITS or SECURE_BITS[half] < chosen.bits or half < 2 * slots


def test_they_pass_through_json_and_bad_ones_do_not() -> None:
    parameters = choose(2)
    assert Parameters.read(asdict(parameters)) == parameters
    assert Parameters.read(asdict(parameters)).fingerprint() == parameters.fingerprint()
    assert choose(3).fingerprint() != parameters.fingerprint()
    with pytest.raises(InputError, match="'degree', 'primes' and 'scale_bits'"):
        Parameters.read({"degree": 8192})
    with pytest.raises(InputError, match="not secure"):
        Parameters.read({"degree": 4096, "primes": [50, 50, 50], "scale_bits": 30})
