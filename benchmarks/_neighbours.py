"""Averaging over neighbours: how near a hundred noisy copies bring a thief to a prediction, and at what price.

`python benchmarks/_neighbours.py`: a small network for digits that was trained for four epochs, so that its predictions
are not certain, behind ModelGuard-S. A thief asks about each of 100 test digits once, or about it and 99 noisy copies,
and takes the mean: the mean ‖ỹ − y‖₂ with bootstrap intervals. Then what two copies are worth that cost 1,400 queries
each: 14 inputs a hundred times, or 1,400 inputs once.
"""

from __future__ import annotations

import torch

from _measure import arguments, report
from modelkeep import Model, datasets
from modelkeep.core.access import Scores
from modelkeep.core.results import Estimate
from modelkeep.extract import Extract, Guarded, Knockoff
from modelkeep.extract.attacks import Neighbours
from modelkeep.guard.defences.modelguard_s import ModelGuardS
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.zoo.architectures import dense

SECRET, INPUTS, TIMES, BUDGET = b"a secret for the benchmark only!", 100, 100, 1400


def main() -> None:
    options = arguments(str(__doc__)).parse_args()
    train, test = datasets.load("digits", "train"), datasets.load("digits", "test")
    torch.manual_seed(options.seed)
    model = Model(dense((1, 8, 8), 10, hidden=[32]), input_shape=(1, 8, 8), classes=train.classes)
    fit(model, train, cross_entropy, Recipe(epochs=4, batch_size=64, learning_rate=2e-3), seed=options.seed)
    x = test.x[:INPUTS]
    clean = Scores(model).probs(x)
    figures: dict[str, str | float] = {"mean top confidence": float(clean.max(dim=1).values.mean())}
    for form, secret in (("paper", None), ("secret", SECRET)):
        for epsilon in (1.0, 0.5):
            for deviation in (0.0, 0.05, 0.1, 0.2, 0.3):
                attack = Neighbours(TIMES, deviation) if deviation else Neighbours(1)
                found = attack.ask(Guarded(model, ModelGuardS(epsilon, secret=secret)), x, options.seed)
                apart = Estimate.bootstrap((found - clean).double().norm(dim=1).numpy(), options.seed)
                figures[f"{form}, eps {epsilon}, noise {deviation}"] = (
                    f"{apart.value:.3f} [{apart.low:.3f}, {apart.high:.3f}]"
                )
    for name, count, attack in (
        ("averaged", BUDGET // TIMES, Neighbours(TIMES, 0.2)),
        ("once each", BUDGET, Neighbours(1)),
    ):
        target = Guarded(model, ModelGuardS(1.0, secret=SECRET))
        copy = Extract(train, Knockoff(count), attack, clean=model)(target, test, seed=options.seed)
        figures[f"fidelity for {copy.queries} queries, {name}"] = str(copy.fidelity)
    report(figures, options.json)


if __name__ == "__main__":
    main()
