"""What adversarial training costs, against the same loops by hand in bare torch and against ART's trainer.

Floor: the passes that each method cannot do without, written by hand. PGD training is STEPS passes to the input
without weight gradients and one pass to the weights; fast is one and one; free is one pass to both. All train the
same network from the same weights on the same images of Fashion-MNIST's size; the time of a step does not depend on
what they show. ART computes weight gradients in its attack too. Accuracies are the tests' business, not this file's.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from _measure import arguments, interleaved, report
from modelkeep import Data, Model
from modelkeep.harden import FastTraining, FreeTraining, PGDTraining
from modelkeep.training import SGD, Objective, OwnGradients, Recipe, fit
from modelkeep.zoo.architectures import small_cnn

SHAPE, CLASSES, BATCH, STEPS, RADIUS, RATE = (1, 28, 28), 10, 64, 7, 0.1, 0.01
Run = Callable[[], object]


def by_hand(module: nn.Module, data: Data, steps: int, stride: float) -> None:
    """Projected gradient ascent from a random start, then a step of the weights: PGD and fast."""
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)
    for x, y in data.batches(BATCH, seed=0):
        module.eval().requires_grad_(False)
        moved = (x + RADIUS * (2 * torch.rand_like(x) - 1)).clamp(0, 1)
        for _ in range(steps):
            moved.requires_grad_()
            (gradient,) = torch.autograd.grad(cross_entropy(module(moved), y, reduction="sum"), moved)
            moved = moved.detach() + stride * RADIUS * gradient.sign()
            moved = torch.minimum(torch.maximum(moved, x - RADIUS), x + RADIUS).clamp(0, 1)
        module.train().requires_grad_(True)
        optimizer.zero_grad()
        cross_entropy(module(moved), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def free_by_hand(module: nn.Module, data: Data, replays: int) -> None:
    """One backward pass for the weights and for the kept perturbation."""
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)
    module.train()
    kept = torch.zeros(BATCH, *SHAPE)
    for x, y in data.batches(BATCH, seed=0):
        for _ in range(replays):
            moved = (x + kept).clamp(0, 1).requires_grad_()
            optimizer.zero_grad()
            cross_entropy(module(moved), y).backward()  # type: ignore[no-untyped-call]
            assert moved.grad is not None
            kept = (kept + RADIUS * moved.grad.sign()).clamp(-RADIUS, RADIUS)
            optimizer.step()


def ours(module: nn.Module, data: Data, objective: Objective | OwnGradients, replays: int = 1) -> None:
    model = Model(module, input_shape=SHAPE, classes=CLASSES)
    recipe = Recipe(epochs=1, batch_size=BATCH, optimizer=SGD(), learning_rate=RATE, replays=replays)
    fit(model, data, objective, recipe, seed=0)


def art_trainer() -> Callable[[nn.Module, Data], None] | None:
    """ART's Madry trainer as its users call it; None where ART is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from art.defences.trainer import AdversarialTrainerMadryPGD
            from art.estimators.classification import PyTorchClassifier
    except ImportError:
        print("ART is not installed (pip install 'modelkeep[bench]'): measured without a peer")
        return None

    def run(module: nn.Module, data: Data) -> None:
        options: dict[str, Any] = {"input_shape": SHAPE, "nb_classes": CLASSES, "clip_values": (0.0, 1.0)}
        optimizer = torch.optim.SGD(module.parameters(), lr=RATE)
        classifier = PyTorchClassifier(module, nn.CrossEntropyLoss(), optimizer=optimizer, device_type="cpu", **options)
        trainer = AdversarialTrainerMadryPGD(
            classifier,
            nb_epochs=1,
            batch_size=BATCH,
            eps=RADIUS,
            eps_step=2.5 * RADIUS / STEPS,
            max_iter=STEPS,
            num_random_init=1,
        )
        trainer.fit(data.x.numpy(), data.y.numpy())

    return run


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--batches", type=int, default=8, help="batches of an epoch, of 64 images each")
    parser.add_argument("--repeats", type=int, default=7)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(chosen.seed)
    n = chosen.batches * BATCH
    data = Data(torch.rand(n, *SHAPE), torch.arange(n) % CLASSES, tuple("0123456789"), "noise", bounds=(0.0, 1.0))
    start = small_cnn(SHAPE, CLASSES)
    replays = 4

    def fresh() -> nn.Module:
        return copy.deepcopy(start)

    rivals: dict[str, Run] = {
        "adversarial_floor": lambda: by_hand(fresh(), data, STEPS, 2.5 / STEPS),
        "adversarial": lambda: ours(fresh(), data, PGDTraining(radius=RADIUS, steps=STEPS)),
        "fast_floor": lambda: by_hand(fresh(), data, 1, 1.25),
        "fast": lambda: ours(fresh(), data, FastTraining(radius=RADIUS)),
        "free_floor": lambda: free_by_hand(fresh(), data, replays),
        "free": lambda: ours(fresh(), data, FreeTraining(radius=RADIUS), replays),
    }
    if (peer := art_trainer()) is not None:
        rivals["art"] = lambda: peer(fresh(), data)
    seconds = interleaved(rivals, repeats=chosen.repeats)
    figures: dict[str, float | int | str] = {f"{name}_seconds": taken for name, taken in seconds.items()}
    for name in ("adversarial", "fast", "free"):
        figures[f"{name}_over_floor"] = seconds[name] / seconds[f"{name}_floor"]
    if peer is not None:
        figures["art_over_ours"] = seconds["art"] / seconds["adversarial"]
    report(figures, chosen.json)


if __name__ == "__main__":
    main()
