"""Picture: a scene drawn as `(3, size, size)` with soft edges, light from the upper left, and a lit table."""

from __future__ import annotations

import torch

from modelkeep.papers.saha2020.scenes.scene import RADIUS, Scene, Thing

COLOURS = {
    "red": (0.80, 0.16, 0.16),
    "green": (0.16, 0.58, 0.22),
    "blue": (0.18, 0.32, 0.84),
    "yellow": (0.92, 0.82, 0.20),
    "purple": (0.54, 0.20, 0.70),
    "cyan": (0.20, 0.78, 0.80),
}


def draw_picture(things: Scene, size: int, seed: int) -> torch.Tensor:
    """The scene from above and in front: what is nearer covers what is behind it. `seed` is for the table's grain."""
    generator = torch.Generator().manual_seed(seed)
    down, across = _grid(size)
    light = 0.62 - 0.16 * down + 0.06 * torch.rand((), generator=generator) * across
    drawn = light + 0.02 * torch.randn(3, size, size, generator=generator)
    for thing in sorted(things, key=lambda thing: thing.y):
        alpha, shade, shine = _look(thing, size)
        colour = torch.tensor(COLOURS[thing.colour]).view(3, 1, 1)
        drawn = drawn + alpha * ((colour * shade).clamp(0, 1) * (1 - shine) + shine - drawn)
    return drawn.clamp(0, 1)


def find_thing(things: Scene, size: int) -> torch.Tensor:
    """Where a thing is, `(size, size)` of bool; everywhere else is background."""
    parts = [_look(thing, size)[0] > 0 for thing in things]
    return torch.stack(parts).any(dim=0)


def _grid(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    centres = (torch.arange(size) + 0.5) / size
    return centres.view(size, 1).expand(size, size), centres.view(1, size).expand(size, size)


def _look(thing: Thing, size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """How much of each pixel the thing fills, how bright it is there, and how much of it is a white highlight."""
    down, across = _grid(size)
    radius = RADIUS[thing.size]
    u, v = (across - thing.x) / radius, (down - thing.y) / radius  # -1 to 1 within the thing
    if thing.shape == "cube":
        outside = torch.maximum(u.abs(), v.abs()) - 0.9
        shade = torch.where(v < -0.35, 1.3, torch.where(u > 0.35, 0.6, 0.95))  # lid, side, front
    elif thing.shape == "sphere":
        outside = (u**2 + v**2).sqrt() - 1
        shade = 1.15 - 0.35 * ((u + 0.35) ** 2 + (v + 0.35) ** 2)
    else:  # an upright cylinder, its lid an ellipse
        lid = ((u / 0.7) ** 2 + ((v + 0.8) / 0.3) ** 2).sqrt() - 1
        foot = ((u / 0.7) ** 2 + ((v - 0.8) / 0.3) ** 2).sqrt() - 1
        outside = torch.minimum(torch.maximum(u.abs() - 0.7, v.abs() - 0.8), 0.3 * torch.minimum(lid, foot))
        shade = torch.where(lid < 0, 1.3, 1.0 - 0.5 * (u + 0.3).abs())
    alpha = (0.5 - outside * radius * size).clamp(0, 1)
    if thing.material == "rubber":
        return alpha, shade, torch.zeros_like(shade)
    spot = 0.9 * torch.exp(-((u + 0.3) ** 2 + (v + 0.25) ** 2) / 0.10)
    return alpha, 0.75 * shade * (1 - 0.35 * v), spot  # metal mirrors a bright sky and a dark ground
