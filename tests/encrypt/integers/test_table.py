"""Tables against the functions that they write down."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from modelkeep.core.errors import InputError
from modelkeep.encrypt.integers.table import Table


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 6), st.data())
def test_every_argument_gets_the_value_of_its_interval(bits: int, data: st.DataObject) -> None:
    dropped = data.draw(st.integers(0, bits - 1))
    table = Table.of(lambda u: u**3 - 5, bits, dropped)
    for value in range(-(2 ** (bits - 1)), 2 ** (bits - 1)):
        middle = (value // 2**dropped) * 2**dropped + 2**dropped // 2
        for same in (value, value + 2**bits, value - 3 * 2**bits):  # a table reads an element of the ring
            assert table(torch.tensor([same])).item() == middle**3 - 5


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(InputError, match="20 bits are the most"):
        Table.of(torch.abs, bits=30)
    with pytest.raises(InputError, match="has 8 entries"):
        Table(3, torch.zeros(7, dtype=torch.int64))
    with pytest.raises(InputError, match="int64"):
        Table(3, torch.zeros(8))
