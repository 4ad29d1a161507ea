"""The owner's side of an extraction study: the target, trained once for all trials, and the defences before it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from modelkeep.core.access import Scores
from modelkeep.core.model import Model
from modelkeep.guard.defences.misinformation import reverse_cross_entropy
from modelkeep.guard.outliers import OutlierExposure
from modelkeep.papers.tang2024.arrangement import Arrangement, arrange
from modelkeep.papers.tang2024.networks import build_network
from modelkeep.study.folder import shared_folder, workdir
from modelkeep.study.trials import canonical
from modelkeep.training import Objective, Recipe, fit


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Every setting of a size: of the target, of the thief's queries and of his training. Plain JSON values.

    `network` is the target's and the thief's, `surrogate` MAD's; `samples` is K of equation 21; `shadows` is the number
    of D-DAE's shadow models, `shadowing` and `restoring` how they and its restorer are trained.
    """

    network: str
    surrogate: str
    examples: int
    tested: int
    training: dict[str, Any]
    queries: int
    seeds: int
    stealing: dict[str, Any]
    shadows: int
    shadowing: dict[str, Any]
    restoring: dict[str, Any]
    samples: int = 20

    def to_json(self) -> dict[str, Any]:
        """For the parameters of a trial."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Owner:
    """The data of a task and the target that was trained on them with outlier exposure."""

    task: str
    plan: Plan
    seed: int
    data: Arrangement
    target: Model

    @property
    def asked(self) -> torch.Tensor:
        """What KnockoffNet asks about, the same for all attacks and defences."""
        return self.data.pool.sample(self.queries, self.seed).x

    @property
    def queries(self) -> int:
        """The query budget; a pool that is smaller is asked whole."""
        return min(self.plan.queries, len(self.data.pool))

    def clean(self, x: torch.Tensor) -> torch.Tensor:
        """The clean predictions `(n, classes)`."""
        return Scores(self.target).probs(x)

    def misinformation(self) -> Model:
        """Adaptive misinformation's model: the same network, trained to be wrong."""
        model = build_network(self.plan.network, self.data.train, self.seed + 1)
        _train_once(model, self, "misinformation", lambda data: reverse_cross_entropy)
        return model


def prepare_owner(task: str, plan: dict[str, Any], seed: int) -> Owner:
    """The owner of a task. His target is trained by the first trial that needs it, and kept for the others."""
    return _prepare_owner(task, canonical(plan), seed, workdir().parent)


@lru_cache(maxsize=1)
def _prepare_owner(task: str, plan_text: str, seed: int, folder: Path) -> Owner:
    plan = Plan(**json.loads(plan_text))
    data = arrange(task, plan.examples, plan.tested)
    target = build_network(plan.network, data.train, seed)
    made = Owner(task, plan, seed, data, target)
    _train_once(target, made, "target", lambda data: OutlierExposure(data.outliers))
    return made


def _train_once(model: Model, whose: Owner, role: str, objective: Callable[[Arrangement], Objective]) -> None:
    settings = [whose.task, whose.plan.examples, whose.plan.network, whose.plan.training, whose.seed, role]
    recipe = Recipe.from_json(whose.plan.training)
    with shared_folder(role, settings) as kept:
        fit(model, whose.data.train, objective(whose.data), recipe, seed=whose.seed, checkpoint=kept / "training")
