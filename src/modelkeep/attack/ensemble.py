"""The standard ensemble: four attacks that fail in different ways, with nothing to tune (Croce & Hein 2020)."""

from __future__ import annotations

from typing import get_args

import torch

from modelkeep.attack.blind.square import Square
from modelkeep.attack.case import Search, Target
from modelkeep.attack.frame import carry_out
from modelkeep.attack.gradient.apgd import AutoPGD, AutoPGDTargeted
from modelkeep.attack.nearest.fab import FAB
from modelkeep.attack.result import Attacked
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball, Norm


def standard(
    model: Model,
    data: Data,
    *,
    norm: Norm = "linf",
    radius: float,
    steps: int = 100,
    targets: int = 9,
    queries: int = 5000,
    target: str | Target | None = None,
    mask: torch.Tensor | None = None,
    batch_size: int = 256,
    seed: int,
) -> Attacked:
    """The robust accuracy to report: APGD-CE, APGD-T, FAB-T and Square, each on what the ones before left standing.

    Two climb different losses, one walks along the boundary, and one needs no gradient at all: where that one finds
    what the others could not, `health` says "masked gradients suspected". The defaults are those of AutoAttack; fewer
    `steps`, `targets` and `queries` are quicker and find less.

    Args:
        model: The model, with any number of classes from two up and inputs of any shape; it is left as it was.
        data: Examples with their true labels.
        norm: "linf", "l2" or "l1".
        radius: The largest allowed distance, in the owner's units.
        steps: Gradient steps of each climb and of each walk.
        targets: How many of the most likely wrong classes APGD-T and FAB-T try; where there are fewer, all.
        queries: How often Square may ask the model about each example.
        target: The class that the answer should become; without it, any wrong answer will do.
        mask: True where the input may change; it must broadcast to the inputs' shape.
        batch_size: Examples that are run at once.
        seed: For the random starts and the squares.

    >>> from torch import nn
    >>> model = Model(nn.Linear(4, 2), input_shape=(4,), classes=2)
    >>> x = torch.rand(8, 4)
    >>> found = standard(model, Data(x, model.predict(x), model.classes), radius=1.0, steps=10, queries=20, seed=0)
    >>> list(found.solved_by)
    ['APGD-CE', 'APGD-T', 'FAB-T', 'Square']
    """
    if norm not in get_args(Norm):
        raise bad_parameter("standard", "norm", "'linf', 'l2' or 'l1'", norm)
    searches: list[Search] = [
        AutoPGD(steps, "ce"),
        AutoPGDTargeted(steps, targets),
        FAB(steps, targets),
        Square(queries),
    ]
    return carry_out(
        model,
        data,
        searches,
        attack="standard ensemble",
        ball=Ball(norm, radius, model.bounds),
        target=target,
        mask=mask,
        batch_size=batch_size,
        seed=seed,
    )
