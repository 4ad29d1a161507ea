"""Scene: a few things with CLEVR's attributes at places that leave no doubt about what is left of what."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

Attribute = Literal["size", "colour", "material", "shape"]

ATTRIBUTES: dict[Attribute, tuple[str, ...]] = {
    "size": ("small", "large"),
    "colour": ("red", "green", "blue", "yellow", "purple", "cyan"),
    "material": ("rubber", "metal"),
    "shape": ("cube", "sphere", "cylinder"),
}
"""In the order in which English says them: "the small red metal cube"."""

RADIUS = {"small": 0.085, "large": 0.135}
MARGIN = 0.04
"""Two things differ by at least this in both directions: nothing is only a hair left of, or behind, another."""


@dataclass(frozen=True)
class Thing:
    """One thing: `x` grows to the right and `y` to the front, both from 0 to 1."""

    size: str
    colour: str
    material: str
    shape: str
    x: float = 0.5
    y: float = 0.5

    def is_a(self, word: str) -> bool:
        """Whether `word` is one of its attributes; "thing" is everything.

        >>> Thing("small", "red", "metal", "cube").is_a("metal")
        True
        """
        return word in (self.size, self.colour, self.material, self.shape, "thing")


Scene = tuple[Thing, ...]


def draw_scene(random: Random, fewest: int = 3, most: int = 6) -> Scene:
    """A scene of `fewest` to `most` things that all can be seen, no two of them alike.

    >>> draw_scene(Random(0)) == draw_scene(Random(0))
    True
    """
    count = random.randint(fewest, most)
    while True:  # a crowded start has no place for the last thing: begin again
        things: list[Thing] = []
        for _ in range(50 * count):
            new = _draw_thing(random)
            if all(_apart(new, other) for other in things):
                things.append(new)
            if len(things) == count:
                return tuple(things)


def _draw_thing(random: Random) -> Thing:
    """One thing somewhere within the picture."""
    size, colour, material, shape = (random.choice(values) for values in ATTRIBUTES.values())
    edge = 1.15 * RADIUS[size]  # a cylinder is a little taller than wide
    return Thing(size, colour, material, shape, random.uniform(edge, 1 - edge), random.uniform(edge, 1 - edge))


def _apart(one: Thing, other: Thing) -> bool:
    across, along = abs(one.x - other.x), abs(one.y - other.y)
    touching = RADIUS[one.size] + RADIUS[other.size]
    alike = all(getattr(one, attribute) == getattr(other, attribute) for attribute in ATTRIBUTES)
    return not alike and min(across, along) > MARGIN and across**2 + along**2 > touching**2
