"""PGD against the bare floor, torchattacks and foolbox, in one run.

Floor: forward and input-gradient passes by hand, as many as there are steps, on every example, with nothing else.
Two victims. Of `standing` no example can be moved across, so that all rivals do the same passes: the figures without a
suffix. `falling` is an ordinary trained network at a radius where most of the examples fall; the peers run every
step on all of them, and ours stops working on what is solved.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from _measure import arguments, interleaved, report
from modelkeep import Data, Model
from modelkeep.architectures import small_cnn
from modelkeep.attack import pgd
from modelkeep.attack.ball import Norm
from modelkeep.training import Adam, Recipe, fit
from modelkeep.training import cross_entropy as objective

SHAPE, CLASSES, BATCH, STEPS = (1, 28, 28), 10, 128, 40
RADII: dict[Norm, float] = {"linf": 0.023, "l2": 0.5}
Run = Callable[[], object]


class Raised(nn.Module):
    """A network with one logit raised so far that no small change lets another class win."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.inner(x)
        return torch.cat([logits[:, :1] + 50, logits[:, 1:]], dim=1)


def victims(seed: int) -> dict[str, tuple[Model, Data]]:
    """A network that has learned ten patterns under noise, and the same one with its first class raised."""
    generator = torch.Generator().manual_seed(seed)
    patterns = torch.rand(CLASSES, *SHAPE, generator=generator)
    y = torch.arange(10 * BATCH) % CLASSES
    x = 0.5 + 0.4 * (patterns[y] - 0.5) + 0.15 * torch.randn(len(y), *SHAPE, generator=generator)
    data = Data(x.clamp(0, 1), y, tuple(map(str, range(CLASSES))), name="patterns", bounds=(0, 1))
    torch.manual_seed(seed)
    model = Model(small_cnn(SHAPE, CLASSES), input_shape=SHAPE, classes=CLASSES)
    fit(model, data, objective, Recipe(epochs=2, batch_size=64, optimizer=Adam(), learning_rate=2e-3), seed=seed)
    standing = Model(Raised(model.module), input_shape=SHAPE, classes=CLASSES)
    first = data.first(BATCH)
    zeros = Data(first.x, torch.zeros_like(first.y), first.classes, bounds=first.bounds)
    return {"": (standing, zeros), "_falling": (model, first)}


def floor(model: Model, data: Data) -> Run:
    def run() -> object:
        gradient = torch.zeros_like(data.x)
        for _ in range(STEPS):
            x = data.x.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(cross_entropy(model.module(x), data.y, reduction="sum"), x)
        return gradient

    return run


def torchattacks(package: Any, model: Model, data: Data, norm: Norm, radius: float) -> Run:
    kind = {"linf": package.PGD, "l2": package.PGDL2}[norm]
    attack = kind(model.module, eps=radius, alpha=2.5 * radius / STEPS, steps=STEPS, random_start=True)
    return lambda: attack(data.x, data.y)


def foolbox(package: Any, model: Model, data: Data, norm: Norm, radius: float) -> Run:
    kind = {"linf": package.attacks.LinfPGD, "l2": package.attacks.L2PGD}[norm]
    attack = kind(rel_stepsize=2.5 / STEPS, steps=STEPS, random_start=True)
    wrapped = package.PyTorchModel(model.module, bounds=(0, 1))
    return lambda: attack(wrapped, data.x, data.y, epsilons=radius)


def installed() -> dict[str, Any]:
    """The peers that can be imported here."""
    found = {}
    for name in ("torchattacks", "foolbox"):
        try:
            with warnings.catch_warnings(action="ignore"):
                found[name] = importlib.import_module(name)
        except ImportError:
            print(f"{name} is not installed (pip install {'--no-deps ' * (name == 'torchattacks')}{name}): left out")
    return found


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)  # with two, chance alone moves the ratios by 20 % on a machine of two cores
    peers = installed()
    figures: dict[str, float | int | str] = {"batch": BATCH, "steps": STEPS}
    for suffix, (model, data) in victims(options.seed).items():
        for norm, radius in RADII.items():

            def ours(model: Model = model, data: Data = data, norm: Norm = norm, radius: float = radius) -> float:
                found = pgd(model, data, norm=norm, radius=radius, steps=STEPS, seed=options.seed)
                return found.robust_accuracy.value

            rivals: dict[str, Run] = {"floor": floor(model, data), "pgd": ours}
            for name, make in (("torchattacks", torchattacks), ("foolbox", foolbox)):
                if name in peers:
                    rivals[name] = make(peers[name], model, data, norm, radius)
            figures[f"robust_accuracy_{norm}{suffix}"] = ours()
            times = interleaved(rivals, repeats=options.repeats)
            bare = times.pop("floor")
            figures |= {f"{rival}_{norm}{suffix}_over_floor": taken / bare for rival, taken in times.items()}
    report(figures, options.json)


if __name__ == "__main__":
    main()
