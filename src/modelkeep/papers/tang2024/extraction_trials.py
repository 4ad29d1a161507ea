"""One cell of tables 2 to 5: one attack on one defended target, and what the defence itself does to the answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn.functional import one_hot

from modelkeep.extract import attacks
from modelkeep.extract.attacks import Attack
from modelkeep.extract.bayes import PartialBayes
from modelkeep.extract.extraction import extract
from modelkeep.extract.restorer import DDAE, DDAEPlus
from modelkeep.extract.strategies import JacobianAugmentation, Knockoff, Strategy
from modelkeep.extract.target import Guarded, Target
from modelkeep.guard.grid import ONE, confidences, distortion, snap
from modelkeep.papers.tang2024 import printed
from modelkeep.papers.tang2024.defences import standing
from modelkeep.papers.tang2024.networks import NETWORKS
from modelkeep.papers.tang2024.owner import Owner, Plan, owner
from modelkeep.training import Recipe


def steal(
    *, seed: int, task: str, plan: dict[str, Any], strategy: str, attack: str, defence: str, epsilon: float = 1.0
) -> dict[str, Any]:
    """Steal the target of a task: how many test labels the copy has right, and how many as the target has them."""
    mine = owner(task, plan, seed)
    target = Guarded(mine.target, standing(defence, epsilon, mine))
    found = extract(
        target,
        asking(strategy, mine),
        attack_named(attack, mine.plan),
        test=mine.data.test,
        architecture=NETWORKS[mine.plan.network],
        recipe=Recipe.from_json(mine.plan.stealing),
        clean=mine.target,
        seed=seed,
    )
    distance = found.recovery_distance
    assert distance is not None
    return {
        "accuracy": [round(found.accuracy.value * found.accuracy.n), found.accuracy.n],
        "fidelity": [round(found.fidelity.value * found.fidelity.n), found.fidelity.n],
        "distance": [distance.value, distance.low, distance.high, distance.n],
        "queries": found.queries,
    }


def protect(*, seed: int, task: str, plan: dict[str, Any], defence: str, epsilon: float = 1.0) -> dict[str, Any]:
    """What a defence does to the answers: ℓ1 distortion over the thief's queries, the owner's accuracy over the test.

    The thief asks first, so that a defence with a state is judged as its users find it after a theft.
    """
    mine = owner(task, plan, seed)
    guarded = Guarded(mine.target, standing(defence, epsilon, mine))
    asked = mine.asked
    answers = guarded.probs(asked)
    clean = snap(mine.clean(asked).cpu().numpy())
    moved = distortion(snap(answers.numpy()).units, clean.units) / ONE
    right = int((guarded.labels(mine.data.test.x) == mine.data.test.y).sum())
    return {
        "distortion": [float(moved.max()), float(moved.mean()), len(moved)],
        "clean answers": [int((moved == 0).sum()), len(moved)],
        "protected": [right, len(mine.data.test)],
        "different answers": len(np.unique(confidences(snap(answers.numpy()).units), axis=0)),
    }


def asking(strategy: str, mine: Owner) -> Strategy:
    """The paper's query strategies, with the same natural images for all attacks and defences."""
    if strategy == printed.KNOCKOFF:
        return Knockoff(mine.data.pool, mine.queries)
    return JacobianAugmentation(mine.data.pool.sample(mine.plan.seeds, mine.seed), mine.queries)


def attack_named(name: str, plan: Plan) -> Attack:
    """The paper's attacks by their names in its tables."""
    shadows, restoring = Recipe.from_json(plan.shadowing), Recipe.from_json(plan.restoring)
    table = PartialBayes(samples=plan.samples)
    made = {
        printed.NAIVE: attacks.NAIVE,
        printed.TOP_ONE: Attack(name, asking=only_labels),
        printed.S4L: attacks.S4L,
        printed.SMOOTHING: attacks.SMOOTHING,
        printed.DDAE: Attack(name, recovery=DDAE(plan.shadows, NETWORKS["strided"], shadows, restoring)),
        printed.DDAE_PLUS: Attack(name, recovery=DDAEPlus(table, restoring)),
        printed.PBAYES: Attack(name, recovery=table),
    }
    return made[name]


def only_labels(target: Target, x: torch.Tensor, seed: int) -> torch.Tensor:
    """The top-1 attack: all but the label is thrown away at once, so a strategy that looks at answers sees labels."""
    answers = target.probs(x)
    return one_hot(answers.argmax(dim=1), answers.shape[1]).to(answers.dtype)
