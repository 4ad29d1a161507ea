"""Four classes in the plane that overlap in a chain, as in figure 7.2(a) of Leino2022.

Where two classes overlap, no model can be both right and sure which of the two it is. It can be sure that it is one of
the two, which is what relaxed guarantees are for. The thesis shows its set only as a picture; ours is made to look
alike: four discs, each of which meets the next.
"""

from __future__ import annotations

import math

import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter

CENTRES = {"blue": (0.25, 0.7), "orange": (0.3, 0.3), "green": (0.7, 0.3), "pink": (0.75, 0.7)}
"""Named and ordered as the colours of `modelkeep.core.plots.PALETTE`, in which pictures show the classes."""
REACH = 0.24
"""The radius of a disc: neighbours are 0.4 apart and share a lens 0.08 wide, the others do not meet."""


def draw_points(n: int, seed: int) -> Data:
    """`n` points, as many of each class, spread evenly over its disc: `x: (n, 2)` in [0, 1].

    >>> draw_points(8, seed=0).y.tolist()
    [0, 1, 2, 3, 0, 1, 2, 3]
    """
    if n < 1:
        raise bad_parameter("overlapping", "n", "at least 1 point", n)
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % len(CENTRES)
    distance = REACH * torch.rand(n, generator=generator).sqrt()  # the root spreads them evenly over the area
    angle = 2 * math.pi * torch.rand(n, generator=generator)
    x = torch.tensor(list(CENTRES.values()))[y] + distance[:, None] * torch.stack((angle.cos(), angle.sin()), dim=1)
    source = f"modelkeep.papers.leino2022.overlapping_classes, seed {seed}"
    return Data(x, y, tuple(CENTRES), "overlapping", source, bounds=(0.0, 1.0))
