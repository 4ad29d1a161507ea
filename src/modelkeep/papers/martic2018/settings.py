"""The supervised settings of each size: networks, data, tables 1 and 2's schedules, what is reset and how often.

The small size has CIFAR-10: there a small network needs most of its steps for its best error rate, as the paper's do on
ImageNet. On MNIST and Fashion-MNIST, which `medium` has besides, half of the progress is made in a few steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from modelkeep.completion.part import Part
from modelkeep.papers.study import Size
from modelkeep.training import SGD, Recipe, StepDecay

Network = Literal["AlexNet", "AlexNet small", "AlexNet large", "ResNet"]
IMAGENET = "imagenet"
SEEDS = 3
"""Section 4: "each experiment is run with 3 seeds"."""

LONG, SHORT_RATE = 60_000, 3
"""Table 2 retrains at a tenth of the original's first rate. A few hundred steps at 0.01 do not even learn the logits,
so a ResNet that is trained for less than the paper's steps has three times all of its rates; chosen on seed 0."""

ALEXNET_PARTS = (
    *(Part(f"Conv {i}", (f"conv{i}",)) for i in (1, 2, 3, 4, 5)),
    *(Part(f"Linear {i}", (f"linear{i}",)) for i in (1, 2)),
)
HORIZONTAL = tuple(Part(f"{share:.0%} of all", ("",), share=share) for share in (0.1, 0.5))


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A network and its data, how it is trained and how it is retrained. Plain JSON values.

    At most `examples` of the data are trained on, and `held_out` others measure the error rate.
    """

    network: str
    data: str
    factory: str
    arguments: dict[str, Any]
    examples: int
    held_out: int
    training: dict[str, Any]
    retraining: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """For the parameters of a trial."""
        return asdict(self)


def recipes(network: Network, steps: int, batch_size: int) -> tuple[Recipe, Recipe]:
    """How to train and to retrain: appendix A, with the schedule of table 1 or 2 brought to this number of steps.

    >>> training, retraining = recipes("AlexNet", 120_000, 256)
    >>> retraining.learning_rate.table
    ((0, 0.05), (30000, 0.005), (45000, 0.0005), (72500, 5e-05))
    """
    tables: tuple[list[tuple[float, float]], list[tuple[float, float]]]
    if network == "ResNet":  # table 2, of 60e3 batches
        tables = [(0, 1e-1), (30, 1e-2), (45, 1e-3)], [(0, 1e-2), (20, 1e-3)]
        whole, faster = 60, 1 if steps >= LONG else SHORT_RATE
    else:  # table 1, of 120e3
        tables = [(0, 5e-2), (60, 5e-3), (90, 5e-4), (105, 5e-5)], [(0, 5e-2), (30, 5e-3), (45, 5e-4), (72.5, 5e-5)]
        whole, faster = 120, 1
    training, retraining = (
        Recipe(
            steps=steps,
            batch_size=batch_size,
            optimizer=SGD(momentum=0.9, weight_decay=1e-4),
            learning_rate=StepDecay(tuple((round(start * steps / whole), faster * rate) for start, rate in table)),
            evaluate_every=max(1, steps // 100),
        )
        for table in tables
    )
    return training, retraining


def settings(network: Network, size: Size) -> list[Setting]:
    """The network on each data set of a size."""
    alexnet = network != "ResNet"
    arguments: dict[str, Any]
    if size == "paper":
        sizes = {"AlexNet": "standard", "AlexNet small": "small", "AlexNet large": "large"}
        factory, arguments = ("alexnet", {"size": sizes[network]}) if alexnet else ("resnet50", {})
        steps, batch_size = (120_000, 256) if alexnet else (60_000, 64)
        return [_setting(network, IMAGENET, factory, arguments, (1_281_167, 50_000), steps, batch_size)]
    width, steps, examples = (8, 400, 10_000) if size == "small" else (12, 1_200, 50_000)
    factory, arguments = "small_resnet", {"blocks": 1, "width": width, "stride": 2}
    if alexnet:
        wide = {"AlexNet": width, "AlexNet small": width // 2, "AlexNet large": 3 * width // 2}
        factory, arguments = "small_alexnet", {"width": wide[network]}
    sets = ("cifar-10",) if size == "small" or network in ("AlexNet small", "AlexNet large") else _MEDIUM
    return [_setting(network, data, factory, arguments, (examples, 2_000), steps, 32) for data in sets]


_MEDIUM = ("mnist", "fashion-mnist", "cifar-10")


def _setting(
    network: Network,
    data: str,
    factory: str,
    arguments: dict[str, Any],
    counts: tuple[int, int],
    steps: int,
    batch_size: int,
) -> Setting:
    training, retraining = recipes(network, steps, batch_size)
    return Setting(
        network=network,
        data=data,
        factory=factory,
        arguments=arguments,
        examples=counts[0],
        held_out=counts[1],
        training=training.to_json(),
        retraining=retraining.to_json(),
    )


def resnet_parts(size: Size) -> tuple[Part, ...]:
    """Appendix A: the first convolution, each section's first block, the last one also but its skip, and the logits."""
    sections = {"small": (1, 3), "medium": (1, 2, 3), "paper": (1, 2, 3, 4)}[size]
    last = sections[-1]
    block = f"section{last}.block1"
    return (
        Part("Conv 1", ("conv1",)),
        *(Part(f"S{i} B1", (f"section{i}.block1",)) for i in sections),
        Part(f"S{last} B1 -W", (block,), without=(f"{block}.skip",)),
        Part("Logits", ("logits",)),
    )


def seeds(seed: int) -> Sequence[int]:
    """The runs of a study."""
    return range(seed, seed + SEEDS)
