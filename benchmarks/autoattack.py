"""AutoAttack beside the standard ensemble: robust accuracy and time on networks of several kinds, in one run.

Digits (8×8), 200 held-out images. The peer is torchattacks' AutoAttack with the settings of its paper, which both
have: 100 steps (torchattacks itself takes 10), nine targets and 5,000 queries. Whatever the peer returns is put into
the ball exactly and asked again, as ours is; of the random network, in its "rand" version too, by the mean of 100 fresh
answers, and the lower one counts. Times are CPU time of one thread. `--json` ends with `standard_over_autoattack_time`
and the largest difference of robust accuracy, in points.
"""

from __future__ import annotations

import copy
import importlib
import warnings
from dataclasses import dataclass
from time import process_time
from typing import Any

import torch
from torch import nn

from _measure import arguments, report
from modelkeep import Data, Model
from modelkeep.attack import Standard
from modelkeep.core.norms import Ball, Norm
from modelkeep.harden import PGDTraining
from modelkeep.training import Objective, Recipe, cross_entropy, fit
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import dense, small_cnn, small_resnet

SHAPE, CLASSES, EXAMPLES, ANSWERS, STEPS = (1, 8, 8), 10, 200, 100, 100
RECIPE = Recipe(epochs=6, batch_size=64, learning_rate=3e-3)


class Sure(nn.Module):
    """A network with its logits times a number: the same answers, and probabilities that round to 0 and 1."""

    def __init__(self, network: nn.Module, times: float) -> None:
        super().__init__()
        self.network, self.times = network, times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.network(x)
        assert isinstance(logits, torch.Tensor)
        return self.times * logits


class Quantised(nn.Module):
    """A network that sees its input in `levels` steps: its gradient is zero, as rounding has none."""

    def __init__(self, network: nn.Module, levels: int) -> None:
        super().__init__()
        self.network, self.levels = network, levels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.network((x * (self.levels - 1)).round() / (self.levels - 1))
        assert isinstance(logits, torch.Tensor)
        return logits


class Noisy(nn.Module):
    """A network behind noise on its input."""

    def __init__(self, network: nn.Module, scale: float) -> None:
        super().__init__()
        self.network, self.scale = network, scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.network(x + self.scale * torch.randn_like(x))
        assert isinstance(logits, torch.Tensor)
        return logits


@dataclass(frozen=True)
class Victim:
    """A network, the norm and the radius at which it is attacked."""

    name: str
    model: Model
    norm: Norm
    radius: float
    random: bool = False


def trained(module: nn.Module, train: Data, objective: Objective, seed: int) -> Model:
    model = Model(module, input_shape=SHAPE, classes=train.classes)
    fit(model, train, objective, RECIPE, seed=seed)
    return model


def behind(model: Model, module: nn.Module) -> Model:
    return Model(module.eval(), input_shape=SHAPE, classes=model.classes)


def victims(train: Data, seed: int) -> list[Victim]:
    """Networks of four kinds and what owners put around them."""
    torch.manual_seed(seed)
    hard = PGDTraining(radius=0.15, steps=4)
    plain = trained(small_cnn(SHAPE, CLASSES), train, cross_entropy, seed)
    hardened = trained(small_cnn(SHAPE, CLASSES), train, hard, seed)
    wide = trained(dense(SHAPE, CLASSES), train, cross_entropy, seed)
    residual = trained(small_resnet(SHAPE, CLASSES, blocks=1), train, hard, seed)
    return [
        Victim("plain CNN", plain, "linf", 0.1),
        Victim("plain CNN", plain, "l2", 0.4),
        Victim("hardened CNN", hardened, "linf", 0.15),
        Victim("hardened CNN, logits × 100", behind(hardened, Sure(hardened.module, 100.0)), "linf", 0.15),
        Victim("hardened CNN, logits × 1000", behind(hardened, Sure(hardened.module, 1000.0)), "linf", 0.15),
        Victim("dense", wide, "linf", 0.12),
        Victim("hardened residual", residual, "linf", 0.18),
        Victim("16 input levels", behind(plain, Quantised(plain.module, 16)), "linf", 0.1),
        Victim(
            "16 input levels, logits × 1000",
            behind(plain, Sure(Quantised(plain.module, 16), 1000.0)),
            "linf",
            0.1,
        ),
        Victim("noise on the input", behind(hardened, Noisy(hardened.module, 0.25)), "linf", 0.15, random=True),
    ]


def mean_accuracy(victim: Victim, x: torch.Tensor, y: torch.Tensor) -> float:
    """The share of right answers; of a random network over fresh draws."""
    with victim.model.frozen(seed=99):
        answers = [victim.model.predict(x) == y for _ in range(ANSWERS if victim.random else 1)]
    return float(torch.stack(answers).double().mean())


def autoattack(package: Any, victim: Victim, data: Data, version: str) -> tuple[float, float]:
    """The accuracy that the peer leaves, and its seconds of CPU time."""
    model, prefix = victim.model, {"linf": "Linf", "l2": "L2"}[victim.norm]
    ball = Ball(victim.norm, victim.radius, model.bounds)
    attack = package.AutoAttack(
        copy.deepcopy(model.module), norm=prefix, eps=victim.radius, version=version, n_classes=CLASSES, seed=0
    )
    for part in attack._autoattack.attacks:
        if hasattr(part, "steps"):
            part.steps = STEPS
    right = torch.ones(len(data), dtype=torch.bool) if victim.random else model.predict(data.x) == data.y
    start = process_time()
    found = attack(data.x[right].clone(), data.y[right]).detach()
    seconds = process_time() - start
    inside = data.x.clone()
    inside[right] = ball.exactly(ball.project(found, data.x[right]), data.x[right])
    return mean_accuracy(victim, inside, data.y), seconds


def beside(package: Any, victim: Victim, data: Data, seed: int) -> dict[str, float]:
    """Both on one network."""
    start = process_time()
    found = Standard(norm=victim.norm, radius=victim.radius)(victim.model, data, seed=seed)
    ours_seconds = process_time() - start
    theirs = [autoattack(package, victim, data, each) for each in ["standard", *(["rand"] if victim.random else [])]]
    return {
        "clean": mean_accuracy(victim, data.x, data.y),
        "standard": mean_accuracy(victim, found.adversarial, data.y),
        "autoattack": min(accuracy for accuracy, _ in theirs),
        "standard_s": ours_seconds,
        "autoattack_s": min(theirs)[1],
    }


def compare(seed: int, only: str | None = None, examples: int = EXAMPLES) -> dict[str, dict[str, float]]:
    """A row per network; with `only`, of those whose name has that in it."""
    with warnings.catch_warnings(action="ignore"):
        package = importlib.import_module("torchattacks")
    test = datasets.load("digits", "test").first(examples)
    rows = {}
    for victim in victims(datasets.load("digits", "train"), seed):
        name = f"{victim.name}, {victim.norm} {victim.radius:g}"
        if only is None or only in name:
            row = rows[name] = beside(package, victim, test, seed)
            figures = " | ".join(f"{100 * row[key]:.1f}" for key in ("clean", "autoattack", "standard"))
            times = f"{row['autoattack_s']:.1f} | {row['standard_s']:.1f}"
            print(f"| {victim.name} | {victim.norm} {victim.radius:g} | {figures} | {times} |", flush=True)
    return rows


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--only", help="only networks whose name has this in it")
    parser.add_argument("--examples", type=int, default=EXAMPLES)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| network | at | clean | AutoAttack | standard | AutoAttack s | standard s |\n|---|---|--:|--:|--:|--:|--:|")
    rows = compare(options.seed, options.only, options.examples)
    totals = {name: sum(row[f"{name}_s"] for row in rows.values()) for name in ("standard", "autoattack")}
    figures: dict[str, float | int | str] = {
        "standard_over_autoattack_time": totals["standard"] / totals["autoattack"],
        "standard_weaker_by_points_at_most": max(100 * (row["standard"] - row["autoattack"]) for row in rows.values()),
    }
    report(figures, options.json)


if __name__ == "__main__":
    main()
