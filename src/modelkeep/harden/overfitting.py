"""Catastrophic overfitting: a training on one step of attack learns to defeat that step alone (Wong2020, section 5.4).

Within a few updates the network gets right what its own step finds, and PGD finds everything. The training looks for it
now and then on its own batches: a few steps of PGD beside the one step.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from modelkeep.attack.case import wrongness
from modelkeep.attack.gradient.ascent import ascend
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball
from modelkeep.training import Step

OWN, STRONGER = "right on its own attack", "right on PGD"
# How far the two may be apart, and the share of the first that the second must keep. In about 16 trainings on digits
# (no log of them was kept), sound ones (radius 0.1 and 0.2) kept 0.58 at least, those that overfitted (0.3) under 0.3.
_GAP, _KEPT = 0.2, 0.5

_LOOKS = 4  # per epoch
_STEPS = 10
LOOKED_AT = 64
"""Examples of a batch that are enough to see it."""


def is_time_to_look(step: Step) -> bool:
    """Whether this step is one of the few in which PGD runs too."""
    return step.number % max(1, step.per_epoch // _LOOKS) == 0


def look(
    model: Model, x: torch.Tensor, y: torch.Tensor, moved: torch.Tensor, ball: Ball, step: Step
) -> dict[str, torch.Tensor]:
    """How many of a batch are answered rightly where the training's own attack `moved` them, and where PGD does."""
    with model.frozen(step.generator.initial_seed()):
        found = ascend(
            lambda at: wrongness(model.forward(at), y),
            x,
            ball.random_point(x, step.generator),
            ball=ball,
            step_size=2.5 * ball.reach / _STEPS,
            steps=_STEPS,
        )
        with torch.no_grad():
            right = [(model.forward(at).argmax(dim=1) == y).double().mean() for at in (moved, found)]
    return {OWN: right[0], STRONGER: right[1]}


def warning(metrics: Mapping[str, float]) -> str:
    """What to say of the means since the last evaluation; empty where nothing is wrong.

    >>> warning({OWN: 0.7, STRONGER: 0.6})
    ''
    >>> warning({OWN: 0.99, STRONGER: 0.02}).split(":")[0]
    'catastrophic overfitting'
    """
    own, stronger = metrics.get(OWN), metrics.get(STRONGER)
    if own is None or stronger is None or own - stronger <= _GAP or stronger >= _KEPT * own:
        return ""
    return (
        f"catastrophic overfitting: {own:.0%} are right where the training's one step moves them, {stronger:.0%} where "
        f"{_STEPS} steps do. Train with PGDTraining, or with a smaller radius or learning rate"
    )
