"""Every setting of both sizes of the extraction studies."""

from __future__ import annotations

from dataclasses import replace

from modelkeep.papers.study import Size
from modelkeep.papers.tang2024.arrangement import ANIMALS
from modelkeep.papers.tang2024.owner import Plan
from modelkeep.training import SGD, Linear, Recipe, StepDecay


def _quick(epochs: int) -> Recipe:
    return Recipe(epochs=epochs, batch_size=128, learning_rate=Linear(3e-3, 0.0))


def _papers(epochs: int, rate: float, halved: int, batch_size: int) -> Recipe:
    """Appendix B.3: SGD with a momentum of 0.5, whose rate is halved at fixed intervals."""
    table = tuple((start, rate / 2 ** (start // halved)) for start in range(0, epochs, halved))
    return Recipe(
        epochs=epochs,
        batch_size=batch_size,
        optimizer=SGD(momentum=0.5),
        learning_rate=StepDecay(table, unit="epoch"),
    )


# A target that is trained for longer with outlier exposure answers all drawings alike, and there is nothing to steal.
SMALL = Plan(
    network="strided",
    surrogate="pooled",
    examples=10_000,
    tested=5_000,
    training=_quick(8).to_json(),
    queries=2_000,
    seeds=500,
    stealing=_quick(10).to_json(),
    shadows=3,
    shadowing=_quick(4).to_json(),
    restoring=Recipe(steps=600, batch_size=256, learning_rate=Linear(3e-3, 0.0)).to_json(),
)
PAPER = Plan(
    network="resnet",
    surrogate="resnet",
    examples=60_000,
    tested=10_000,
    training=_papers(100, 0.01, 30, 64).to_json(),
    queries=50_000,
    seeds=1_000,
    stealing=_papers(30, 0.1, 10, 128).to_json(),
    shadows=20,
    shadowing=Recipe(epochs=10, batch_size=64, learning_rate=2e-3).to_json(),
    restoring=Recipe(epochs=5, batch_size=256, learning_rate=2e-3).to_json(),
)
"""The paper's settings. Its networks start from ImageNet's weights, which cannot be had here; ours from random ones."""


def make_plan(task: str, size: Size) -> Plan:
    """VGG16-BN as in the paper for colour photographs of 32×32; images of 28×28 are too small for it."""
    if size == "small":
        return SMALL
    return replace(PAPER, network="vgg16-bn", surrogate="vgg16-bn") if task == ANIMALS else PAPER
