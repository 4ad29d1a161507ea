"""Attack: what all attacks share. An attack declares its settings as fields and its inner loop as `search(case)`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch

from modelkeep.attack.case import Case, Search, Target
from modelkeep.attack.frame import DRAWS, carry_out, move_to_real_values
from modelkeep.attack.result import Attacked
from modelkeep.core.access import Labels, Scores, Weights
from modelkeep.core.data import Data
from modelkeep.core.method import declaration_of, setting
from modelkeep.core.model import Model
from modelkeep.core.norms import AnyNorm, Ball

_VIEWS: dict[str, type[Labels]] = {"weights": Weights, "scores": Scores, "labels": Labels}


def norm_setting(*known: AnyNorm) -> Any:
    """The setting `norm` of an attack that knows these norms; the first is the default."""
    return setting("How a change is measured.", default=known[0], choices=known)


@dataclass(frozen=True, kw_only=True)
class Attack:
    """An attack that looks for the smallest change. `PGD(radius=0.1)(model, data, seed=0)` runs it.

    A subclass declares its own settings and `search`. The call hands both to `carry_out`, which verifies what the
    search found. The view of the model follows from the declared access. `cheap` are settings with which the tests of
    all attacks run it in a moment; one that is `of_texts` takes models of token ids only.
    """

    of_texts: ClassVar[bool] = False
    cheap: ClassVar[dict[str, Any]] = {}

    norm: AnyNorm = norm_setting("l2", "linf", "l1")
    target: str | Target | torch.Tensor | None = setting(
        "The class that the answer should become, in Python also a tensor with a label for each example; without it, "
        "any wrong answer.",
        default=None,
    )
    mask: torch.Tensor | None = setting(
        "True where the input may change; it must broadcast to the inputs' shape.", default=None
    )
    batch_size: int = setting("Examples that are run at once.", default=256, at_least=1)
    draws: int = setting(
        "Passes over which a random model is averaged in each step; any other model is asked once.",
        default=DRAWS,
        at_least=1,
    )

    @property
    def title(self) -> str:
        """What results and pages call it: the name that the papers use."""
        return type(self).__name__

    @property
    def sees(self) -> type[Labels]:
        """The view of the model that the search gets."""
        declared = declaration_of(self)
        return Weights if declared is None else _VIEWS[declared.access]

    def ball(self, model: Model) -> Ball:
        """Where the search may go. Without a radius the norm only measures."""
        return Ball(self.norm, None, model.bounds)

    def searches(self, model: Model, data: Data) -> Sequence[Search]:
        """The inner loops, each on what the ones before left: itself, restarts of it, or the parts of an ensemble."""
        return [self]

    def of_part(self, chosen: torch.Tensor, n: int) -> Self:
        """The attack for the examples at `chosen` of `n`: with their targets and their masks."""
        target, mask = self.target, self.mask
        if isinstance(target, torch.Tensor) and len(target) == n:
            target = target[chosen]
        if mask is not None and mask.ndim > 0 and len(mask) == n > 1:
            mask = mask[chosen]
        return replace(self, target=target, mask=mask)

    def search(self, case: Case[Any], /) -> torch.Tensor:
        """The best input found for each example of the case, `(n, ...)`."""
        raise NotImplementedError

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Attacked:
        """Attack the examples of `data`. The model is left as it was.

        Token ids are attacked at their embedding; the result holds the embedded texts.
        """
        asked, given, mask = move_to_real_values(model, data, self.mask)
        found = carry_out(
            asked,
            given,
            self.searches(asked, given),
            attack=self.title,
            ball=self.ball(asked),
            target=self.target,
            mask=mask,
            batch_size=self.batch_size,
            draws=self.draws,
            seed=seed,
        )
        if asked is model:
            return found
        origin = replace(found.provenance, model=model.fingerprint(), data=data.fingerprint())
        return replace(found, provenance=origin)


@dataclass(frozen=True, kw_only=True)
class BoundedAttack(Attack):
    """An attack that looks for a wrong answer within a radius."""

    norm: AnyNorm = norm_setting("linf", "l2", "l1")
    radius: float = setting("The largest allowed change, in the units of the data.", above=0, below=math.inf)

    def ball(self, model: Model) -> Ball:
        """All inputs within the radius and the model's bounds."""
        return Ball(self.norm, self.radius, model.bounds)
