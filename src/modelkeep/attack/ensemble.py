"""The standard ensemble: four attacks that fail in different ways, with nothing to tune (Croce2020)."""

from __future__ import annotations

from typing import Any, ClassVar

from modelkeep.attack.adaptive import victim_of
from modelkeep.attack.answers import is_flat, is_random
from modelkeep.attack.base import BoundedAttack
from modelkeep.attack.case import Search
from modelkeep.attack.gradient.apgd import APGD
from modelkeep.attack.gradient.apgd_targeted import APGDTargeted
from modelkeep.attack.gradient.pgd import PGD
from modelkeep.attack.minimum_norm.fab import FAB
from modelkeep.attack.query.square import Square, SquareOnLogits
from modelkeep.core.data import Data
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model

# Where no gradient leads anywhere, Square does the work alone, and its luck differs by two points from start to start.
_SQUARES_IF_FLAT = 3


@declare("attack", "standard", access="weights", paper="Croce2020")
class Standard(BoundedAttack):
    """An ensemble like AutoAttack: APGD-CE, APGD-T, FAB-T and Square, each on what stands.

    This is the robust accuracy to report. Two climb different losses, one walks along the boundary, and one needs no
    gradient at all: where that one finds what the others could not, `health` says "masked gradients suspected". The
    defaults are those of AutoAttack; fewer `steps`, `targets` and `queries` are quicker and find less. A random model
    is attacked by PGD, APGD-CE, APGD-DLR and Square on its mean answer over `draws` passes.

    >>> import torch
    >>> from torch import nn
    >>> model = Model(nn.Linear(4, 2), input_shape=(4,), classes=2)
    >>> x = torch.rand(8, 4)
    >>> found = Standard(radius=1.0, steps=10, queries=20)(model, Data(x, model.predict(x), model.classes))
    >>> list(found.solved_by)
    ['APGD-CE', 'APGD-T', 'FAB-T', 'Square']
    """

    cheap: ClassVar[dict[str, Any]] = {"radius": 0.1, "steps": 3, "queries": 5}

    steps: int = setting("Gradient steps of each climb and of each walk.", default=100, at_least=1)
    targets: int = setting(
        "How many of the most likely wrong classes APGD-T and FAB-T try; where there are fewer, all.",
        default=9,
        at_least=1,
    )
    queries: int = setting("How often Square may ask the model about each example.", default=5000, at_least=1)

    @property
    def title(self) -> str:
        """What results call it."""
        return "standard ensemble"

    def searches(self, model: Model, data: Data) -> list[Search]:
        """The four attacks; of a random model, those that go on after a wrong answer; of a flat one, more of Square."""
        if is_random(victim_of(model), data.x):
            # A walk along a boundary has none to walk along. PGD's steps depend on no value, which may be one of luck.
            queries = max(1, self.queries // (2 * self.draws))
            return [
                PGD(norm=self.norm, radius=self.radius, steps=self.steps),
                APGD(norm=self.norm, radius=self.radius, steps=self.steps, loss="ce"),
                APGD(norm=self.norm, radius=self.radius, steps=self.steps, loss="dlr"),
                SquareOnLogits(Square(norm=self.norm, radius=self.radius, queries=queries)),
            ]
        squares = _SQUARES_IF_FLAT if is_flat(model, data.x) else 1
        return [
            APGD(norm=self.norm, radius=self.radius, steps=self.steps, loss="ce"),
            APGDTargeted(norm=self.norm, radius=self.radius, steps=self.steps, targets=self.targets),
            FAB(norm=self.norm, steps=self.steps, targets=self.targets),
            *[SquareOnLogits(Square(norm=self.norm, radius=self.radius, queries=self.queries))] * squares,
        ]
