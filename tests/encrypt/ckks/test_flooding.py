"""Flooding: the noise has the deviation that the theorem asks for, and differs each time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from modelkeep.core.errors import InputError
from modelkeep.encrypt.ckks.flooding import flood


def test_the_deviation_is_that_of_the_formula() -> None:
    values = np.zeros(20_000)
    got = flood(values, 1e-6, bits=20, queries=3)
    assert got.std() == pytest.approx(1e-6 * math.sqrt(36) * 2**10, rel=0.05)
    assert not np.array_equal(got, flood(values, 1e-6, bits=20, queries=3))


def test_no_bits_are_refused() -> None:
    with pytest.raises(InputError, match="bits"):
        flood(np.zeros(1), 1e-6, bits=0)
