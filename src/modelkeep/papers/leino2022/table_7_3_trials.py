"""Train a GloRo Net for a guarantee and count what it certifies: one row of table 7.3 of thesis 002. A file of its
own, so that a change of the report does not run it again.

EuroSAT, CIFAR-100 and Tiny-ImageNet cannot be had here. Fashion-MNIST, where a shirt looks much like a coat, CIFAR-10
and four overlapping discs stand in for them. The relaxed nets are trained as the standard one, with the same loss,
but for the guarantee.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from modelkeep.certify.constants import lipschitz
from modelkeep.certify.guarantees import Affinity, Guarantee, RelaxedTopK, Standard
from modelkeep.certify.objectives import GloRoTrades
from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.papers.leino2022.overlapping_classes import overlapping
from modelkeep.study.trial import workdir
from modelkeep.training import ExponentialAfterHalf, Logarithmic, Recipe, fit
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import MinMax, cnn_2c2f, dense

GUARANTEES = {
    "overlapping": ("standard", "RT2", "affinity"),
    "fashion-mnist": ("standard", "RT3", "affinity"),
    "cifar-10": ("standard", "RT3", "affinity"),
}
RADII = {"overlapping": 0.04, "fashion-mnist": 0.3, "cifar-10": 36 / 255}
"""The radius that each set is certified at. That of the images is the thesis', in ℓ2 (chapter 6)."""
GROUPS = {
    "overlapping": (("blue", "orange"), ("orange", "green"), ("green", "pink")),
    "fashion-mnist": (("T-shirt/top", "Pullover", "Coat", "Shirt"),),
    "cifar-10": (
        ("airplane", "automobile", "ship", "truck"),
        ("bird", "cat", "deer", "dog", "frog", "horse"),
    ),
}
"""The affinity sets: what overlaps; what is worn on top; vehicles and animals. Every other class is alone."""


def relax(
    *, seed: int, data: str, guarantee: str, images: int, epochs: int, rate: float, network: str
) -> dict[str, Any]:
    """Train on `images` for `epochs` with Adam from `rate` down (table B.1), and certify the whole test set."""
    if data == "overlapping":
        train, test = overlapping(images, seed=2 * seed), overlapping(10_000, seed=2 * seed + 1)
    else:
        train, test = datasets.load(data, "train").first(images), datasets.load(data, "test")
    promise = wanted(guarantee, train, data)
    model = trained(train, promise, RADII[data], seed, epochs, rate, network, workdir() / "training")
    return counted(model, test, guarantee, data)


def wanted(guarantee: str, like: Data, data: str) -> Guarantee:
    """The guarantee of that name: "standard", "affinity", or "RT" and a number."""
    if guarantee == "affinity":
        return affinity(like, data)
    return Standard() if guarantee == "standard" else RelaxedTopK(int(guarantee.removeprefix("RT")))


def affinity(like: Data, data: str) -> Affinity:
    """The groups of that data set, and every other class alone."""
    together = GROUPS[data]
    alone = [(name,) for name in like.classes if not any(name in group for group in together)]
    return Affinity((*together, *alone), like.classes)


def trained(
    train: Data,
    guarantee: Guarantee,
    radius: float,
    seed: int,
    epochs: int,
    rate: float,
    network: str,
    checkpoint: Path | None = None,
) -> Model:
    """A net trained with the TRADES loss; λ rises as in most rows of table B.1, "0.01 → 1.2 log half"."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        module = _NETWORKS[network](train.input_shape, len(train.classes))
    model = Model(module, input_shape=train.input_shape, classes=train.classes, bounds=train.bounds)
    objective = GloRoTrades(radius, weight=Logarithmic(0.01, 1.2, until=0.5, unit="epoch"), guarantee=guarantee)
    recipe = Recipe(epochs=epochs, batch_size=256, learning_rate=ExponentialAfterHalf(rate, rate / 1000, unit="epoch"))
    fit(model, train, objective, recipe, seed=seed, checkpoint=checkpoint)
    return model


def counted(model: Model, test: Data, guarantee: str, data: str) -> dict[str, Any]:
    """The metrics of 7.4.1 as counts, and figure 7.4's: how many are certified as top-k robust for each k.

    "within a group" is how many of the certified sets lie within one affinity set, whatever the net was trained for.
    "VRA by" judges the net by the other guarantees as well, which it was not trained for.
    """
    promise, bounds = wanted(guarantee, test, data), lipschitz(model, "l2")
    logits = torch.cat([model.logits(x) for x, _ in test.batches(1_000)]).double()
    cost = RADII[data] * bounds.rate + bounds.fixed(test.x)
    sets, sizes = promise.sets(logits, cost), promise.certified(logits, cost)
    certified = int(sets.any(dim=1).sum())
    grouped = affinity(test, data).contains(sets) & sets.any(dim=1)
    return {
        "VRA": [int(promise.verified(logits, cost, test.y).sum()), len(test)],
        "rejection rate": [len(test) - certified, len(test)],
        "clean accuracy": [int(promise.accurate(logits, test.y).sum()), len(test)],
        "top-1 accuracy": [int((logits.argmax(dim=1) == test.y).sum()), len(test)],
        "top-k robust": [[int(count), certified] for count in sizes.sum(dim=0)],
        "within a group": [int(grouped.sum()), certified],
        "VRA by": {
            other: [int(wanted(other, test, data).verified(logits, cost, test.y).sum()), len(test)]
            for other in GUARANTEES[data]
        },
    }


def _dense(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    return dense(input_shape, classes, hidden=[64, 64, 64], activation="minmax")


def _two_blocks(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """B.5's network for CIFAR-100 and EuroSAT: two 3×3 convolutions, invertible down-sampling, two dense layers."""
    channels, height, width = input_shape
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, padding=1),
        MinMax(),
        nn.PixelUnshuffle(2),
        nn.Conv2d(4 * 32, 64, 3, padding=1),
        MinMax(),
        nn.PixelUnshuffle(2),
        nn.Flatten(),
        nn.Linear(4 * 64 * (height // 4) * (width // 4), 256),
        MinMax(),
        nn.Linear(256, 256),
        MinMax(),
        nn.Linear(256, classes),
    )


_NETWORKS = {"dense": _dense, "2C2F": cnn_2c2f, "B.5": _two_blocks}
