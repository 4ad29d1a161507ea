"""Problem: a trained model of which a part is missing, and what is there to restore it (Martic2018, section 3.1)."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelkeep.completion.initialisation import Scheme, reset
from modelkeep.completion.part import Part
from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.training import Recipe

if TYPE_CHECKING:
    from modelkeep.completion.recording import Recording


@dataclass(frozen=True, eq=False)
class Problem:
    """Complete `model`, of which `part` is missing, by training on `data`; success is measured on `held_out`.

    The `recipe` is the retraining's: its `steps` are the budget, and each `evaluate_every` steps the loss is measured.
    `recording` is what the attacker saw of the original training, where it was split between parties (T6).
    """

    model: Model
    part: Part
    data: Data
    held_out: Data
    recipe: Recipe
    recording: Recording | None = None

    def initial_model(self, seed: int, scheme: Scheme = "own") -> Model:
        """θ'_0 of Martic2018, section 3.2: a copy of the model whose missing part is drawn anew."""
        copy = Model.from_card(deepcopy(self.model.module), self.model.card, self.model.device)
        reset(copy.module, self.part, scheme=scheme, seed=seed)
        return copy
