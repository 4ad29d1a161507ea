"""The pictures of chapter 7 of Leino2022: the decision surfaces of figure 7.2, and named sets as in figure 7.5."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from modelkeep.certify.certification import Certify
from modelkeep.certify.guarantees import RelaxedTopK, Standard
from modelkeep.certify.named_sets import NamedSets
from modelkeep.certify.surfaces import draw_surfaces, surface
from modelkeep.papers.leino2022.overlapping_classes import draw_points
from modelkeep.papers.leino2022.table_7_3 import RADII, affinity, train_net
from modelkeep.zoo import datasets

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_decision_surfaces(seed: int, *, points: int = 2_000, epochs: int = 60) -> Figure:
    """Figure 7.2(b) to (d), and affinity: a plain net and three GloRo Nets on the same data."""
    train, radius = draw_points(points, seed=2 * seed), RADII["overlapping"]
    kinds = {
        "plain": (Standard(), 0.0),
        "GloRo": (Standard(), radius),
        "RT2 GloRo": (RelaxedTopK(2), radius),
        "affinity GloRo": (affinity(train, "overlapping"), radius),
    }
    shown = draw_points(400, seed=2 * seed + 1)
    surfaces = [
        surface(train_net(train, guarantee, trained_at, seed, epochs, 1e-2, "dense"), guarantee, trained_at, shown)
        for guarantee, trained_at in kinds.values()
    ]
    return draw_surfaces(surfaces, list(kinds))


def draw_named_clothes(seed: int, *, images: int = 20_000, epochs: int = 6) -> NamedSets:
    """Figure 7.5 in kind: images that the net can only promise several classes for, of an RT3 GloRo Net on clothes."""
    radius, guarantee = RADII["fashion-mnist"], RelaxedTopK(3)
    train, test = (
        datasets.load("fashion-mnist", "train").first(images),
        datasets.load("fashion-mnist", "test").first(500),
    )
    model = train_net(train, guarantee, radius, seed, epochs, 2e-3, "2C2F")
    certify = Certify(radius=radius, guarantee=guarantee)
    tight = Certify(radius=radius)(model, test).sets.any(dim=1)
    chosen = torch.nonzero(certify(model, test).sets.any(dim=1) & ~tight).flatten()[:16]
    shown = test.take(chosen)
    return NamedSets.of(certify(model, shown), shown)
