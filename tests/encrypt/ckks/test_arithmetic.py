"""Each operation on ciphertexts gives what numpy gives on the numbers, and scales stay exact."""

from __future__ import annotations

import numpy as np
import pytest

from modelkeep.core.errors import EncryptError
from modelkeep.encrypt.ckks.arithmetic import Arithmetic
from modelkeep.encrypt.ckks.keys import ClientKeys
from modelkeep.encrypt.ckks.scheme import Floats

CLOSE = 2e-3


@pytest.fixture
def numbers() -> tuple[Floats, Floats]:
    random = np.random.default_rng(0)
    return random.uniform(-2, 2, 2048), random.uniform(-2, 2, 2048)


def test_sums_products_and_rotations(arithmetic: Arithmetic, keys: ClientKeys, numbers: tuple[Floats, Floats]) -> None:
    a, b = numbers
    x, y = keys.encrypt(a), keys.encrypt(b)
    factor = arithmetic.rescale(arithmetic.multiply_plain(x, arithmetic.encode_factor(b, x)))
    assert factor.scale == arithmetic.scheme.parameters.scale
    expected = [
        (arithmetic.add(x, y), a + b),
        (arithmetic.subtract(x, y), a - b),
        (arithmetic.multiply(x, y), a * b),
        (arithmetic.square(x), a * a),
        (arithmetic.rotate(x, 1), np.roll(a, -1)),
        (arithmetic.rotate(x, -1), np.roll(a, 1)),
        (factor, a * b),
        (arithmetic.add(factor, y), a * b + b),  # of two levels
        (arithmetic.sum_rotations(x, [512, 1024]), np.tile(a.reshape(4, 512).sum(axis=0), 4)),
        (arithmetic.add_plain(keys.encrypt(a), b), a + b),
    ]
    for got, wanted in expected:
        np.testing.assert_allclose(keys.decrypt(got), wanted, atol=CLOSE)


def test_too_many_products_are_refused(arithmetic: Arithmetic, keys: ClientKeys) -> None:
    once = arithmetic.square(keys.encrypt([1.0]))
    with pytest.raises(EncryptError, match="these parameters have 1 levels, and all are used up"):
        arithmetic.square(once)
