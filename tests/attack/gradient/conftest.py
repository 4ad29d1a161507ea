"""A small network that was trained on digits, for attacks to be compared on."""

from __future__ import annotations

import pytest

from digits import digits_dense, held_out_digits
from modelkeep import Data, Model


@pytest.fixture(scope="session")
def digits_net() -> tuple[Model, Data]:
    """About 97 % right on the test digits; and 120 of these."""
    return digits_dense(), held_out_digits().first(120)
