"""How many random labels a network can hold: teach it more and more of them until it fails (section 5.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from modelkeep.core.data import Data
from modelkeep.papers.saha2020.plasticity.networks import WEIGHT_DECAY, network
from modelkeep.training import Adam, EarlyStop, Recipe, cross_entropy, fit

HELD = 0.99
"""A set is held when this share of its labels is right."""
CLOSE = 1.1
"""The search ends when what failed is at most so many times what was held."""


def capacity(holds: Callable[[int], bool], start: int) -> tuple[int, int]:
    """The most examples that were held, and the fewest above it that were not: doubled or halved, then bisected.

    As if whoever holds n holds fewer too. Nothing held at all is `(0, 1)`.

    >>> capacity(lambda n: n <= 70, start=16)
    (68, 72)
    """
    held, failed = 0, start
    while holds(failed):
        held, failed = failed, 2 * failed
    while held == 0 and failed > 1:  # only where the first one failed
        if holds(failed // 2):
            held = failed // 2
        else:
            failed //= 2
    while held and failed > max(CLOSE * held, held + 1):
        middle = (held + failed) // 2
        held, failed = (middle, failed) if holds(middle) else (held, middle)
    return held, failed


def memorise(
    *, seed: int, depth: int, width: int, regularisation: str, side: int, hidden: int, steps: int
) -> dict[str, Any]:
    """How many images of noise (`side` × `side`) with random labels, one of two, the network can be taught.

    A probe ends after `steps`, or when it has not become better for 500.
    """
    probes: list[tuple[int, float]] = []

    def holds(n: int) -> bool:
        drawn = torch.Generator().manual_seed(1000 * seed + n)
        x, y = torch.randn(n, 1, side, side, generator=drawn), torch.randint(2, (n,), generator=drawn)
        probes.append((n, taught(Data(x, y, ("0", "1"), "noise"), seed, depth, width, regularisation, hidden, steps)))
        return probes[-1][1] >= HELD

    held, failed = capacity(holds, start=64)
    return {"held": held, "failed": failed, "probes": probes}


def taught(data: Data, seed: int, depth: int, width: int, regularisation: str, hidden: int, steps: int) -> float:
    """The best accuracy on its own training data."""
    model = network(data, depth, width, seed, dropout=0.5 if regularisation == "dropout" else 0.0, hidden=hidden)
    decay = WEIGHT_DECAY if regularisation == "weight decay" else 0.0
    recipe = Recipe(
        steps=steps,
        batch_size=256,
        optimizer=Adam(weight_decay=decay),
        learning_rate=3e-3,
        evaluate_every=100,
        early_stop=EarlyStop(5, "accuracy"),
    )
    fitted = fit(model, data, cross_entropy, recipe, seed=seed, held_out=data)
    best = fitted.history[fitted.best].accuracy
    assert best is not None, "there are held-out data"
    return best.value
