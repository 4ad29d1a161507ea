"""Attack certificates on a wide front: residual networks, ℓ∞ and ℓ1, three guarantees, each input at its own radius.

    python tests/certify/attack_certificates.py --network relu --points 1000

A guarantee accepts several sets of top classes, and promises that one of them stays. So it is broken where each of them
was left somewhere in the ball: every set has an attack of its own, a projected gradient descent on the smallest margin
of a class inside over a class outside. The same attack at multiples of the radius shows that it works.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.certify import Affinity, Certify, Guarantee, RelaxedTopK, Standard, train_certified
from modelkeep.core.norms import Ball, Norm
from modelkeep.training import Linear, Recipe, cross_entropy, fit
from modelkeep.zoo.architectures import MinMax, small_liresnet
from modelkeep.zoo.datasets import load

BELOW = 1 - 1e-5  # an attack may overstep its radius by the rounding of float32
MULTIPLES = (BELOW, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
STEPS, RESTARTS = 30, 3


class Residual(nn.Module):
    """x + g(x) with the activation on both sides."""

    def __init__(self, width: int, activation: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.inside, self.behind = activation(), activation()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.behind(x + self.second(self.inside(self.first(x))))
        return made


def plain(train: Data, activation: Callable[[], nn.Module], seed: int) -> Model:
    torch.manual_seed(seed)
    parts = (nn.Conv2d(1, 6, 3, 2, padding=1), activation(), Residual(6, activation), nn.AvgPool2d(2), nn.Flatten())
    module = nn.Sequential(*parts, nn.Linear(24, 10))
    model = Model(module, input_shape=(1, 8, 8), classes=train.classes)
    fit(model, train, cross_entropy, Recipe(epochs=10, batch_size=32, learning_rate=5e-3), seed=seed)
    return model


def provable(train: Data, seed: int) -> Model:
    torch.manual_seed(seed)
    module = small_liresnet((1, 8, 8), 10, blocks=1, width=8, hidden=16)
    model = Model(module, input_shape=(1, 8, 8), classes=train.classes)
    recipe = Recipe(epochs=8, batch_size=64, learning_rate=Linear(5e-3, 0.0))
    train_certified(model, train, 0.3, seed=seed, recipe=recipe)
    return model


NETWORKS: dict[str, Callable[[Data, int], Model]] = {
    "relu": lambda train, seed: plain(train, nn.ReLU, seed),
    "minmax": lambda train, seed: plain(train, MinMax, seed),
    "gloro": provable,
}


def left(model: Model, x: torch.Tensor, radii: torch.Tensor, k: int, norm: Norm, seed: int) -> torch.Tensor:
    """Whether the k top classes were seen to be others somewhere within the radii, `(n,)`."""
    ball, generator = Ball(norm, 1.0), torch.Generator().manual_seed(seed)
    inside = torch.zeros(len(x), len(model.classes), dtype=torch.bool)
    inside.scatter_(1, model.logits(x).topk(k, dim=1).indices, True)
    each = radii.float().view(-1, *(1,) * (x.ndim - 1))
    found = torch.zeros(len(x), dtype=torch.bool)
    nothing = torch.zeros_like(x)

    def margin(moved: torch.Tensor) -> torch.Tensor:
        logits = model.forward(x + each * moved)
        return logits.masked_fill(~inside, torch.inf).amin(1) - logits.masked_fill(inside, -torch.inf).amax(1)

    for restart in range(RESTARTS):
        moved = nothing if restart == 0 else ball.project(torch.randn(x.shape, generator=generator), nothing)
        for step in range(STEPS + 1):
            moved = moved.detach().requires_grad_()
            here = margin(moved)
            found |= here.detach() < 0
            (slope,) = torch.autograd.grad(here.sum(), moved)
            # The first step goes to the edge of the ball, the others are shorter and shorter.
            length = 1.0 if step == 0 else 0.5 * (1 - step / (STEPS + 1))
            moved = ball.project(moved - length * ball.steepest(slope), nothing)
    return found


def broken(model: Model, x: torch.Tensor, radii: torch.Tensor, guarantee: Guarantee, norm: Norm) -> torch.Tensor:
    """Whether every set that the guarantee accepts was left within the radii, `(n,)`."""
    allowed = guarantee.allowed(model.logits(x).argsort(dim=1, descending=True, stable=True))
    gone = torch.ones(len(x), dtype=torch.bool)
    for place in range(allowed.shape[1]):
        gone &= ~allowed[:, place] | left(model, x, radii, place + 1, norm, seed=place)
    return gone


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", choices=NETWORKS, required=True)
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start = perf_counter()
    whole = load("digits")
    model = NETWORKS[options.network](whole.first(600), options.seed)
    free = Model(model.module, input_shape=model.input_shape, classes=model.classes, bounds=None)
    groups = [("3", "8", "9"), ("1", "4", "7"), *((name,) for name in "0256")]
    guarantees = {"standard": Standard(), "top-3": RelaxedTopK(3), "affinity": Affinity(groups, whole.classes)}
    rows: list[dict[str, Any]] = []
    chosen = whole.sample(options.points, options.seed).x
    for norm in ("linf", "l1"):
        for number, (name, guarantee) in enumerate(guarantees.items()):
            x = chosen[number :: len(guarantees)]
            data = Data(x, model.predict(x), whole.classes, bounds=None)
            found = Certify(radius=0.01, norm=norm, guarantee=guarantee, relaxation=True)(free, data, seed=0)
            held = found.radii > 0
            x, radii = x[held], found.radii[held]
            fallen = {f"{m:.4g}": int(broken(free, x, radii * m, guarantee, norm).sum()) for m in MULTIPLES}
            own = Certify(radius=0.01, norm=norm, guarantee=guarantee)(free, data, seed=0).radii.median()
            row = {"network": options.network, "norm": norm, "guarantee": name, "attacked": int(held.sum())}
            row |= {"broken": fallen.pop("1"), "beyond": fallen, "median radius": float(radii.median())}
            row |= {"of the constants alone": float(own), "seconds": round(perf_counter() - start)}
            rows.append(row)
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()
    attacked, fell = (sum(row[name] for row in rows) for name in ("attacked", "broken"))
    sys.stdout.write(f"{attacked} attacked, {fell} broken\n")


if __name__ == "__main__":
    main()
