"""What keys reveal together, against linear algebra over the rationals."""

from __future__ import annotations

import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from encrypt.functional.test_group import TOY
from modelkeep.core.errors import AccessError, InputError
from modelkeep.encrypt.functional.authority import Authority, Space

ROWS = st.lists(st.lists(st.integers(-2, 2), min_size=4, max_size=4), min_size=1, max_size=5)


@settings(deadline=None, max_examples=60)
@given(ROWS)
def test_rank_and_open_features_are_those_over_the_rationals(rows: list[list[int]]) -> None:
    space, matrix = Space(4, TOY.order).extended(rows), sympy.Matrix(rows)
    assert space.rank == matrix.rank()
    units = [i for i in range(4) if matrix.col_join(sympy.eye(4)[i, :]).rank() == matrix.rank()]
    assert list(space.unit_vectors()) == units


def test_as_many_functions_as_features_are_refused_also_one_by_one() -> None:
    authority = Authority(3, group=TOY)
    authority.keys(torch.tensor([[1, 2, 3]]))
    authority.keys(torch.tensor([[1, 2, 3], [2, 4, 6]]))  # nothing new
    authority.keys(torch.tensor([[2, 1, 3]]))
    with pytest.raises(AccessError, match="3 independent functions of 3 features"):
        authority.keys(torch.tensor([[0, 0, 5]]))
    assert authority.rank == 2
    assert authority.revealed == ()


def test_a_single_feature_is_refused_also_as_a_difference() -> None:
    authority = Authority(5, group=TOY)
    with pytest.raises(AccessError, match="feature 3 exactly"):
        authority.keys(torch.tensor([[0, 0, 0, 7, 0]]))
    authority.keys(torch.tensor([[1, 1, 1, 1, 1]]))
    with pytest.raises(AccessError, match="feature 4 exactly"):
        authority.keys(torch.tensor([[1, 1, 1, 1, 2]]))
    assert authority.rank == 1


def test_large_weights_are_refused() -> None:
    with pytest.raises(AccessError, match="256 in magnitude"):
        Authority(3, group=TOY).keys(torch.tensor([[1, 16, -256]]))


def test_it_gives_every_key_where_it_was_told_to_and_says_what_is_open() -> None:
    authority = Authority(3, group=TOY, reveal_inputs=True)
    authority.keys(torch.tensor([[1, 0, 0], [0, 1, 1]]))
    assert list(authority.revealed) == [0]
    authority.keys(torch.tensor([[0, 1, 2]]))
    assert list(authority.revealed) == [0, 1, 2]


def test_senseless_limits_are_refused() -> None:
    with pytest.raises(InputError, match="features"):
        Authority(1, group=TOY)
    with pytest.raises(InputError, match="most_rank"):
        Authority(4, group=TOY, most_rank=4)
    with pytest.raises(InputError, match="rows of 4 integers"):
        Authority(4, group=TOY).keys(torch.tensor([[1, 2]]))
