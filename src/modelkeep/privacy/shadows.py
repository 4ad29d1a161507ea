"""Shadows: networks like the target, trained as it was, on data of which it is known who was in it (Shokri2017)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.model import Model
from modelkeep.privacy.stack import can_stack, train_stacked
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.training.batches import derive_seed
from modelkeep.training.fresh_network import copy_untrained


@dataclass(frozen=True, eq=False)
class Shadows:
    """The trained networks, the records that they were drawn from, and who was in: `inside: (k, n)`."""

    models: tuple[Model, ...]
    pool: Data
    inside: torch.Tensor

    def __len__(self) -> int:
        return len(self.models)


@dataclass(frozen=True, eq=False)
class Plan:
    """Which records each shadow learns, `rows: (k, n)`, and from which seed."""

    rows: torch.Tensor
    seeds: tuple[int, ...]

    def part(self, first: int, number: int) -> Plan:
        """Some of the shadows."""
        return Plan(self.rows[first : first + number], self.seeds[first : first + number])

    def inside(self, n: int) -> torch.Tensor:
        """Which of the `n` records each shadow learns, `(k, n)`."""
        return torch.zeros(len(self.rows), n, dtype=torch.bool).scatter_(1, self.rows, True)


def plan_shadows(n: int, count: int, seed: int) -> Plan:
    """Halves of `n` records for `count` shadows, in pairs: what the one learns, the other does not (Carlini2022).

    So each record is in half of the shadows. Of an odd number, one record is in neither of a pair.
    """
    if count < 2 or count % 2:
        raise bad_parameter("plan_shadows", "count", "an even number of shadows, at least 2", count)
    if n < 4:
        raise InputError(f"Shadow models need at least 4 records to learn from. Got {n}.")
    rows = []
    for pair in range(count // 2):
        order = torch.randperm(n, generator=torch.Generator().manual_seed(derive_seed(seed, "halves", pair)))
        rows += [order[: n // 2], order[n // 2 : 2 * (n // 2)]]
    return Plan(torch.stack(rows), tuple(derive_seed(seed, "shadow", i) for i in range(count)))


def train_shadows(target: Model, pool: Data, recipe: Recipe, *, count: int, seed: int = 0) -> Shadows:
    """`count` networks of the target's architecture, each from fresh weights on a random half of the `pool`."""
    plan = plan_shadows(len(pool), count, seed)
    return Shadows(train_planned(target, pool, recipe, plan), pool, plan.inside(len(pool)))


def train_planned(target: Model, pool: Data, recipe: Recipe, plan: Plan) -> tuple[Model, ...]:
    """The shadows of a plan: stacked where the network and the recipe allow it, else one after the other."""
    models = [copy_untrained(target, seed) for seed in plan.seeds]
    with progress.task("shadow models", len(models)) as task:
        if can_stack(target, recipe):
            train_stacked(models, pool, plan.rows, recipe, plan.seeds)
            task.advance(len(models))
        else:
            for model, rows, seed in zip(models, plan.rows, plan.seeds, strict=True):
                fit(model, pool.take(rows), cross_entropy, recipe, seed=seed)
                task.advance()
    return tuple(models)


def join(parts: Sequence[Data]) -> Data:
    """The records of all parts, in their order."""
    x = torch.cat([rows for part in parts for rows, _ in part.batches(4096)])
    return replace(parts[0], x=x, y=torch.cat([part.y for part in parts]))
