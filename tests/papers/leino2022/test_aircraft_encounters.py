"""Encounters of two aircraft: the geometry, the directives and how they are drawn."""

from __future__ import annotations

from math import cos, hypot, pi, radians, sin

import pytest
import torch

from modelkeep.core.errors import InputError
from modelkeep.papers.leino2022.aircraft_encounters import (
    ADJACENT,
    DIRECTIVES,
    RANGES,
    TURNS,
    WELL_CLEAR,
    advise,
    draw_encounters,
    nearest,
    separation,
)


def flown(encounter: list[float], turn: float) -> float:
    """The smallest separation, flown in small steps."""
    distance, angle, heading, own, speed = encounter
    x = y = direction = 0.0
    their_x, their_y = distance * cos(angle), distance * sin(angle)
    nearest_yet, steps = distance, 200
    for step in range(1, 60 * steps + 1):
        direction += radians(turn) / steps / 2
        x, y = x + own * cos(direction) / steps, y + own * sin(direction) / steps
        direction += radians(turn) / steps / 2
        their_x, their_y = their_x + speed * cos(heading) / steps, their_y + speed * sin(heading) / steps
        if step % steps == 0:  # looked at every second, as there
            nearest_yet = min(nearest_yet, hypot(their_x - x, their_y - y))
    return nearest_yet


@pytest.mark.parametrize("turn", TURNS, ids=DIRECTIVES)
def test_the_separation_is_what_flying_it_gives(turn: float) -> None:
    generator = torch.Generator().manual_seed(0)
    low, high = torch.tensor(list(RANGES.values())).T
    some = low + (high - low) * torch.rand(5, 5, generator=generator)
    assert separation(some, turn).tolist() == pytest.approx([flown(row, turn) for row in some.tolist()], abs=1.0)


@pytest.mark.parametrize(
    ("encounter", "directive"),
    [
        ([50_000.0, pi, pi, 500.0, 100.0], "clear of conflict"),  # behind us, and flying away
        ([6_000.0, pi / 2, -0.2, 500.0, 500.0], "right"),  # beside us on the left, and slowly coming nearer
        ([6_000.0, -pi / 2, 0.2, 500.0, 500.0], "left"),
        ([8_000.0, 0.05, pi, 300.0, 900.0], "hard right"),  # nearly head on and fast, a little to the left
        ([8_000.0, -0.05, pi, 300.0, 900.0], "hard left"),
    ],
    ids=["leaving", "beside-left", "beside-right", "head-on-left", "head-on-right"],
)
def test_the_advice_is_what_a_pilot_would_say(encounter: list[float], directive: str) -> None:
    assert DIRECTIVES[int(advise(torch.tensor([encounter])))] == directive


def test_left_and_right_are_mirrored() -> None:
    generator = torch.Generator().manual_seed(1)
    low, high = torch.tensor(list(RANGES.values()), dtype=torch.float64).T
    some = low + (high - low) * torch.rand(3_000, 5, generator=generator, dtype=torch.float64)
    mirrored = some * torch.tensor([1.0, -1.0, -1.0, 1.0, 1.0])
    assert torch.equal(advise(mirrored), len(DIRECTIVES) - 1 - advise(some))


def test_a_directive_is_the_weakest_that_keeps_them_clear() -> None:
    data = draw_encounters(500, seed=0)
    low, high = torch.tensor(list(RANGES.values()), dtype=torch.float64).T
    room = torch.stack([separation(low + (high - low) * (data.x.double() + 0.5), turn) for turn in TURNS], dim=1)
    for directive, weaker in ((1, 2), (3, 2), (0, 1), (4, 3)):
        of_it = data.y == directive
        found = room[of_it]
        assert (found[:, weaker] < WELL_CLEAR + 1).all()
        assert (found[:, directive] + 1 > found[:, weaker]).all()


def test_the_draw_is_balanced_seeded_and_scaled() -> None:
    data, again, other = draw_encounters(100, seed=0), draw_encounters(100, seed=0), draw_encounters(100, seed=1)
    assert data.fingerprint() == again.fingerprint() != other.fingerprint()
    assert data.y.bincount().tolist() == [20] * 5
    assert data.bounds == (-0.5, 0.5)
    with pytest.raises(InputError, match="multiple of 5"):
        draw_encounters(7, seed=0)


def test_the_smallest_distance_is_that_of_all_pairs() -> None:
    data = draw_encounters(200, seed=0)
    distances = torch.cdist(data.x.double(), data.x.double())
    apart = (data.y[:, None] - data.y[None, :]).abs()
    for steps in (1, 2):
        assert nearest(data, steps) == pytest.approx(float(distances[apart >= steps].min()), rel=1e-5)


def test_adjacent_directives_are_pairs_from_left_to_right() -> None:
    assert ADJACENT[0] == ("hard left", "left")
    assert len(ADJACENT) == 4
