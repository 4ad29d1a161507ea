"""Knowledge: what the attacker has besides the model (Leino2022, threat model 8.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.model import Model
from modelkeep.privacy.shadows import Shadows, train_shadows
from modelkeep.training import Recipe

Trainer = Callable[[Model, Data, Recipe, int, int], Shadows]
"""From the target, the pool, the recipe, the number of shadows and the seed to the trained shadows."""


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Records of the same kind that were not in the training data, and how the target was trained.

    `hold_out` are the attacker's own records: neither members nor the non-members that the attack is judged on. The
    `recipe` is needed by attacks that train networks like the target. They train them once for all attacks that get
    the same knowledge. `trainer` says how: in this process, or as trials of a study (`modelkeep.privacy.shadow_study`).
    """

    hold_out: Data
    recipe: Recipe | None = None
    trainer: Trainer | None = None
    _trained: dict[tuple[str, str, int, int], Shadows] = field(default_factory=dict, repr=False)

    def need_recipe(self, attack: str) -> Recipe:
        """The recipe, or the error that says who needs it."""
        if self.recipe is None:
            raise InputError(
                f"The attack '{attack}' trains networks as the target was trained, and must know how. Give "
                "Knowledge(hold_out, recipe=Recipe(…)), or on the command line --epochs and the other settings."
            )
        return self.recipe

    def shadows(self, attack: str, target: Model, pool: Data, count: int, seed: int) -> Shadows:
        """Networks like the target, each trained on half of the `pool`."""
        recipe = self.need_recipe(attack)
        key = (target.fingerprint(), pool.fingerprint(), count, seed)
        if key not in self._trained:
            if self.trainer is not None:
                self._trained[key] = self.trainer(target, pool, recipe, count, seed)
            else:
                self._trained[key] = train_shadows(target, pool, recipe, count=count, seed=seed)
        return self._trained[key]
