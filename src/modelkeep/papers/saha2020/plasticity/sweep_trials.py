"""One cell of the sweep: a network of some depth, width and regularisation, hardened, then compressed (section 5.5).

The attacker is that of table 5.1, and each number is counted on test images.
"""

from __future__ import annotations

from modelkeep.attack import pgd
from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball
from modelkeep.papers.saha2020.plasticity.compression import pruned, quantised
from modelkeep.papers.saha2020.plasticity.networks import WEIGHT_DECAY, CarriedOn, clean, network
from modelkeep.study.trial import workdir
from modelkeep.training import Adam, Recipe, evaluate, fit
from modelkeep.zoo import datasets

RADIUS = 8.0
BITS = (8, 4)
SHARES = (0.5, 0.8, 0.9)

Counts = dict[str, list[int]]
"""How many of how many, by what was done to the network and whether the images were clean or attacked."""


def sweep(
    *,
    seed: int,
    dataset: str,
    depth: int,
    width: int,
    regularisation: str,
    images: int,
    epochs: int,
    cycles: int,
    attacked: int,
) -> Counts:
    """Train on `images` for `epochs`, then on adversarial examples for `cycles`, and count at each stage."""
    train, test = datasets.load(dataset, "train").first(images), datasets.load(dataset, "test")
    return sweep_on(train, test, seed, depth, width, regularisation, epochs, cycles, attacked)


def sweep_on(
    train: Data,
    test: Data,
    seed: int,
    depth: int,
    width: int,
    regularisation: str,
    epochs: int,
    cycles: int,
    attacked: int,
) -> Counts:
    """The same on any data. An epoch on adversarial examples gives each 10 iterations more."""
    model = network(train, depth, width, seed, dropout=0.5 if regularisation == "dropout" else 0.0)
    optimizer = Adam(weight_decay=WEIGHT_DECAY if regularisation == "weight decay" else 0.0)
    first, second = (Recipe(epochs=n, batch_size=64, optimizer=optimizer) for n in (epochs, cycles))
    fit(model, train, clean, first, seed=seed, checkpoint=workdir() / "clean")
    found = _counted(model, test, attacked, seed, "before")
    objective = CarriedOn(Ball("l1", RADIUS, train.bounds), steps=10, step_size=RADIUS / 4)
    fit(model, train, objective, second, seed=seed + 1, checkpoint=workdir() / "adversarial", checkpoint_seconds=300)
    found |= _counted(model, test, attacked, seed, "after")
    for bits in BITS:
        found |= _counted(quantised(model, bits), test, attacked, seed, f"{bits} bits")
    for share in SHARES:
        found |= _counted(pruned(model, share), test, attacked, seed, f"{100 * share:.0f} % pruned")
    return found


def _counted(model: Model, test: Data, attacked: int, seed: int, stage: str) -> Counts:
    """How many of all are right, and how many of the first `attacked` still are after 40 iterations of PGD."""
    right = evaluate(model, test)[1]
    robust = pgd(model, test.first(attacked), norm="l1", radius=RADIUS, steps=40, seed=seed).robust_accuracy
    return {
        f"{stage}, clean": [round(right.value * right.n), right.n],
        f"{stage}, attacked": [round(robust.value * robust.n), robust.n],
    }
