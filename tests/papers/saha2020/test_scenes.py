"""Scenes: seeded, drawable, and never in doubt about what is where."""

from __future__ import annotations

from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from modelkeep.papers.saha2020.scenes import ATTRIBUTES, Thing, draw_picture, draw_scene, find_thing
from modelkeep.papers.saha2020.scenes.scene import MARGIN, RADIUS

PIXELS = 48


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_things_differ_lie_within_the_picture_and_do_not_share_a_row_or_column(seed: int) -> None:
    things = draw_scene(Random(seed))
    assert 3 <= len(things) <= 6
    assert len({(t.size, t.colour, t.material, t.shape) for t in things}) == len(things)
    for i, one in enumerate(things):
        assert RADIUS[one.size] <= one.x <= 1 - RADIUS[one.size]
        assert RADIUS[one.size] <= one.y <= 1 - RADIUS[one.size]
        for other in things[:i]:
            assert min(abs(one.x - other.x), abs(one.y - other.y)) > MARGIN


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_of_every_thing_most_can_be_seen(seed: int) -> None:
    things = draw_scene(Random(seed))
    whole = draw_picture(things, PIXELS, 0)
    for i, thing in enumerate(things):
        without = draw_picture(things[:i] + things[i + 1 :], PIXELS, 0)
        seen = int(((whole - without).abs().amax(dim=0) > 0.02).sum())
        assert seen > 0.5 * int(find_thing((thing,), PIXELS).sum())


def test_the_same_seed_gives_the_same_scene_and_picture() -> None:
    assert draw_scene(Random(3)) == draw_scene(Random(3)) != draw_scene(Random(4))
    things = draw_scene(Random(3))
    assert torch.equal(draw_picture(things, PIXELS, 5), draw_picture(things, PIXELS, 5))
    assert not torch.equal(draw_picture(things, PIXELS, 5), draw_picture(things, PIXELS, 6))


def test_drawing_leaves_the_global_random_state_alone() -> None:
    before = torch.random.get_rng_state()
    draw_picture(draw_scene(Random(0)), PIXELS, 0)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_each_attribute_can_be_told_from_the_pixels(attribute: str) -> None:
    plain = {name: choices[0] for name, choices in ATTRIBUTES.items()}
    drawn = [draw_picture((Thing(**plain | {attribute: value}),), PIXELS, 0) for value in ATTRIBUTES[attribute]]  # type: ignore[index, arg-type]
    for i, one in enumerate(drawn):
        assert 0 <= float(one.min())
        assert float(one.max()) <= 1
        for other in drawn[:i]:
            assert int(((one - other).abs().amax(dim=0) > 0.1).sum()) >= 10  # pixels


def test_pictures_differ_only_where_things_are() -> None:
    things = draw_scene(Random(8))
    empty, drawn, where = draw_picture((), PIXELS, 0), draw_picture(things, PIXELS, 0), find_thing(things, PIXELS)
    assert torch.equal(empty[:, ~where], drawn[:, ~where])
    assert 0 < float(where.double().mean()) < 0.5


def test_what_is_in_front_covers_what_is_behind() -> None:
    back = Thing("large", "red", "rubber", "cube", 0.5, 0.45)
    front = Thing("large", "blue", "rubber", "cube", 0.5, 0.55)
    middle = draw_picture((front, back), PIXELS, 0)[:, PIXELS // 2, PIXELS // 2]
    assert middle[2] > middle[0]
