"""Encounters of two aircraft with the manoeuvre that one of them is advised to fly: data like that of ACAS Xu.

Neither the data of ACAS Xu nor, here, its networks can be had (`modelkeep data acas-xu` reads a local copy of one).
So these are labelled by plain geometry. The own aircraft is at the origin and flies along the x axis; the intruder is
at a distance and an angle, with a heading and a speed of its own, and flies straight on. A directive is a turn of
±1.5 or ±3 degrees per second, those of ACAS Xu, or none. Of the two sides the one is taken on which a hard turn
leaves more room, and there the weakest directive that keeps the two well clear of each other: 4,000 feet apart for the
next minute (the horizontal distance of RTCA's DO-365). If none does, it is the one that leaves the most room.
"""

from __future__ import annotations

from itertools import pairwise
from math import pi, radians

import numpy as np
import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.training.batches import derive_seed

DIRECTIVES = ("hard left", "left", "clear of conflict", "right", "hard right")
"""From left to right: neighbours are one degree apart (Leino2022, 7.4.4)."""
ADJACENT = tuple(pairwise(DIRECTIVES))
"""The affinity sets of targeted safe regions: all pairs of adjacent directives."""
TURNS = (3.0, 1.5, 0.0, -1.5, -3.0)  # degrees per second, left is positive
WELL_CLEAR = 4_000.0  # feet
_HORIZON = 60  # seconds

# The ranges of ACAS Xu (Katz2017): feet, radians and feet per second. The distance begins where the two are
# still well clear: nearer, nothing is left to be decided.
RANGES = {
    "distance": (WELL_CLEAR, 60_760.0),
    "angle to intruder": (-pi, pi),
    "heading of intruder": (-pi, pi),
    "own speed": (100.0, 1_200.0),
    "speed of intruder": (0.0, 1_200.0),
}


def draw_encounters(n: int, seed: int) -> Data:
    """`n` encounters, drawn uniformly from the ranges until there are as many of each directive.

    (Of all encounters nine in ten need no turn: a network that always says so would look good.) As for ACAS Xu's
    networks, every input is scaled to an interval of length 1 around 0.

    >>> draw_encounters(10, seed=0).y.bincount()
    tensor([2, 2, 2, 2, 2])
    """
    if n < 1 or n % len(DIRECTIVES):
        raise bad_parameter("encounters", "n", f"a multiple of {len(DIRECTIVES)} above 0", n)
    low, high = torch.tensor(list(RANGES.values()), dtype=torch.float64).T
    generator = torch.Generator().manual_seed(derive_seed(seed, "encounters"))
    each = n // len(DIRECTIVES)
    kept: list[list[torch.Tensor]] = [[] for _ in DIRECTIVES]
    while any(sum(map(len, parts)) < each for parts in kept):
        share = torch.rand(20_000, len(RANGES), generator=generator, dtype=torch.float64)
        advice = advise(low + (high - low) * share)
        for directive, parts in enumerate(kept):
            parts.append(share[advice == directive])
    x = torch.cat([torch.cat(parts)[:each] for parts in kept]).float() - 0.5
    y = torch.arange(len(DIRECTIVES)).repeat_interleave(each)
    order = torch.randperm(n, generator=generator)
    return Data(
        x[order],
        y[order],
        DIRECTIVES,
        name="airborne",
        source=f"modelkeep.papers.leino2022.aircraft_encounters, seed {seed}",
        features=tuple(RANGES),
        bounds=(-0.5, 0.5),
    )


def advise(encounter: torch.Tensor) -> torch.Tensor:
    """The directive `(n,)` for encounters `(n, 5)` in feet, radians and feet per second."""
    room = torch.stack([separation(encounter, turn) for turn in TURNS], dim=1)
    left = room[:, 0] >= room[:, -1]
    side = torch.where(left[:, None], room[:, [2, 1, 0]], room[:, [2, 3, 4]])  # from no turn to the hard one
    clear = side >= WELL_CLEAR
    strength = torch.where(clear.any(dim=1), clear.int().argmax(dim=1), side.argmax(dim=1))
    return torch.where(left, 2 - strength, 2 + strength)


def separation(encounter: torch.Tensor, turn: float) -> torch.Tensor:
    """The smallest distance `(n,)` within the horizon, looked at every second, if `turn` degrees per second are flown.

    >>> encounter = torch.tensor([[10_000.0, 0.0, 0.0, 600.0, 500.0]])  # straight before us, and 100 feet/s slower
    >>> float(separation(encounter, 0.0))
    4000.0
    """
    distance, angle, heading, own, speed = encounter.double().T[:, :, None]
    time = torch.arange(_HORIZON + 1, dtype=torch.float64)
    rate = radians(turn)
    forward = own * (torch.sin(rate * time) / rate if rate else time)
    sideways = own * ((1 - torch.cos(rate * time)) / rate if rate else 0 * time)
    along = distance * torch.cos(angle) + speed * torch.cos(heading) * time - forward
    across = distance * torch.sin(angle) + speed * torch.sin(heading) * time - sideways
    return torch.hypot(along, across).amin(dim=1)


def nearest(data: Data, steps: int) -> float:
    """The smallest l2 distance between two encounters whose directives are `steps` or more apart.

    From it (steps=1) the thesis chose its radius: ε-robustness needs 2ε between classes. For targeted safe regions
    only those two or more apart count.
    """
    from scipy.spatial import KDTree

    found = []
    for directive in range(len(DIRECTIVES) - steps):
        others = data.x[data.y >= directive + steps]
        distances, _ = KDTree(others.numpy()).query(data.x[data.y == directive].numpy())
        found.append(float(np.min(distances)))
    return min(found)
