"""Legs: every way visits all pieces once, in order, and no party twice in a row."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from modelkeep.govern.piece.route import make_route

names = st.sampled_from(("alice", "bob", "carol"))


@given(st.lists(names, min_size=1, max_size=6), names, names)
def test_way_leads_through_all_pieces_in_order(holders: list[str], source: str, sink: str) -> None:
    way = make_route(holders, source, sink)
    assert [piece for leg in way for piece in leg.pieces] == list(range(len(holders)))
    assert all(holders[piece] == leg.holder for leg in way for piece in leg.pieces)
    assert all(one.holder != other.holder for one, other in pairwise(way))
    assert [leg.source for leg in way] == [True] + [False] * (len(way) - 1)
    assert [leg.sink for leg in way] == [False] * (len(way) - 1) + [True]
    assert (way[0].holder, way[-1].holder) == (source, sink)
