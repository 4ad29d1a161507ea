"""Shadows of a privately trained network: an attacker who knows how it was trained trains his own in the same way."""

from __future__ import annotations

from dataclasses import dataclass

from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.privacy.private_training.dp_sgd import DPSGD
from modelkeep.privacy.shadows import Shadows, plan_shadows
from modelkeep.training import Recipe
from modelkeep.training.fresh_network import copy_untrained


@dataclass(frozen=True)
class PrivateShadows:
    """A trainer for `Knowledge`: each shadow is trained as `training` trains, with the noise that its ε needs.

    The recipe of the knowledge is not looked at, but must be there: `Knowledge(hold_out, recipe, PrivateShadows(…))`.
    """

    training: DPSGD

    def __call__(self, target: Model, pool: Data, recipe: Recipe, count: int, seed: int) -> Shadows:
        """`count` networks like the target, each on a half of the pool."""
        plan = plan_shadows(len(pool), count, seed)
        models = [copy_untrained(target, each) for each in plan.seeds]
        with progress.task("shadow models", len(models)) as task:
            for model, rows, each in zip(models, plan.rows, plan.seeds, strict=True):
                self.training(model, pool.take(rows), seed=each)
                task.advance()
        return Shadows(tuple(models), pool, plan.inside(len(pool)))
