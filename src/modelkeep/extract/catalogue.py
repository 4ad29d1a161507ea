"""Attacks, strategies and defences by their names, for the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.extract.attacks import NAIVE, S4L, SMOOTHING, TOP_ONE, Attack, Repeated
from modelkeep.extract.bayes import Means, PartialBayes
from modelkeep.extract.restorer import DDAE, DDAEPlus
from modelkeep.extract.strategies import AdaptiveKnockoff, JacobianAugmentation, Knockoff, Listed, Strategy
from modelkeep.guard.defence import Defence
from modelkeep.guard.defences.modelguard_s import ModelGuardS
from modelkeep.guard.defences.modelguard_w import ModelGuardW
from modelkeep.guard.defences.no_defence import NoDefence
from modelkeep.guard.defences.reverse_sigmoid import ReverseSigmoid
from modelkeep.guard.defences.rounding import Rounding
from modelkeep.guard.defences.top_one import TopOne
from modelkeep.guard.defences.unordered_quantiser import Unordered

ATTACKS: dict[str, tuple[str, Callable[[Means], Attack]]] = {
    "naive": ("learns from the answers as they are", lambda means: NAIVE),
    "top-1": ("learns from the labels only", lambda means: TOP_ONE),
    "s4l": ("also learns by how much its questions were turned", lambda means: S4L),
    "smoothing": ("averages the answers to three changed copies of each image", lambda means: SMOOTHING),
    "2-qpi": ("asks everything twice, and averages", lambda means: Attack("2-qpi", asking=Repeated(2))),
    "d-dae": ("learns to undo the defence from shadow models", lambda means: Attack("d-dae", recovery=DDAE())),
    "d-dae+": (
        "learns to undo the defence from the table of pbayes",
        lambda means: Attack("d-dae+", recovery=DDAEPlus(PartialBayes(means))),
    ),
    "pbayes": (
        "takes the mean of all predictions that could have given an answer",
        lambda means: Attack("pbayes", recovery=PartialBayes(means)),
    ),
}
"""What it does, and the attack; `means` is around what its table is drawn, where it has one."""

STRATEGIES: dict[str, tuple[str, Callable[[Data, int, int], Strategy]]] = {
    "knockoff": ("natural inputs at random", lambda pool, queries, seed: Knockoff(pool, queries)),
    "adaptive": (
        "natural inputs of the classes that taught most",
        lambda pool, queries, seed: AdaptiveKnockoff(pool, queries, min(10, queries)),
    ),
    "jbda-tr": (
        "a tenth natural inputs, then what the copy finds between classes",
        lambda pool, queries, seed: JacobianAugmentation(pool.sample(max(2, queries // 10), seed), queries),
    ),
    "listed": ("the first inputs, in their order", lambda pool, queries, seed: Listed(pool.x[:queries])),
}

DEFENCES: dict[str, tuple[str, Callable[[float], Defence]]] = {
    "none": ("the clean predictions", lambda epsilon: NoDefence()),
    "top1": ("the label only", lambda epsilon: TopOne()),
    "rounding": ("one decimal", lambda epsilon: Rounding()),
    "reverse-sigmoid": ("confidences bent the wrong way", lambda epsilon: ReverseSigmoid(beta=0.8, epsilon=epsilon)),
    "modelguard-w": ("as misleading as the budget allows", ModelGuardW),
    "modelguard-s": ("the first centroid within the budget", ModelGuardS),
    "unordered": ("the nearest centroid within the budget, which changes", Unordered),
}
"""What it answers, and the defence with an ℓ1 budget where it takes one."""

T = TypeVar("T")


def named(table: dict[str, T], what: str, name: str) -> T:
    """The entry of this name, or an error that lists them."""
    if name not in table:
        raise InputError(f"There is no {what} '{name}'. There are: {', '.join(table)}.")
    return table[name]
