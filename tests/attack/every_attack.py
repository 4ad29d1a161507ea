"""Every attack with a budget at which about half of a few pictures fall, and small networks to try them on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.attack import (
    APGD,
    BIM,
    CW,
    DDN,
    FAB,
    FGSM,
    FMN,
    ILCM,
    JSMA,
    LBFGS,
    PGD,
    Attack,
    Boundary,
    DeepFool,
    OnePixel,
    Square,
    Standard,
)

# A new attack gets a line here, with a budget at which about half of the examples below fall.
SEE_WEIGHTS: dict[str, Attack] = {
    "fgsm": FGSM(radius=0.15),
    "bim": BIM(radius=0.15, steps=10),
    "ilcm": ILCM(radius=0.5, steps=10),
    "ilcm, unbounded": ILCM(steps=20),
    "pgd, linf": PGD(radius=0.15, steps=10),
    "pgd, l2": PGD(norm="l2", radius=0.5, steps=10),
    "pgd, l1": PGD(norm="l1", radius=1.5, steps=10),
    "apgd, ce": APGD(radius=0.15, steps=20),
    "apgd, dlr": APGD(norm="l2", radius=0.5, loss="dlr", steps=20),
    "apgd, l1": APGD(norm="l1", radius=1.5, steps=20),
    "deepfool": DeepFool(steps=20),
    "fab": FAB(steps=10),
    "ddn": DDN(steps=30),
    "fmn": FMN(norm="linf", steps=30),
    "cw": CW(steps=20, binary_search_steps=4),
    "cw, linf": CW(norm="linf", steps=20, binary_search_steps=4),
    "cw, l0": CW(norm="l0", steps=10, binary_search_steps=2),
    "jsma": JSMA(max_share=0.4),
    "lbfgs": LBFGS(steps=10, bisections=4),
    "standard": Standard(radius=0.15, steps=10, queries=100),
}
BLIND: dict[str, Attack] = {
    "square": Square(radius=0.2, queries=200),
    "one pixel": OnePixel(pixels=3, population=20, generations=15),
    "boundary": Boundary(queries=200),
}
ATTACKS = SEE_WEIGHTS | BLIND
every_attack = pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
every_attack_by_gradient = pytest.mark.parametrize("attack", SEE_WEIGHTS.values(), ids=SEE_WEIGHTS)


def network(classes: int = 3) -> nn.Sequential:
    """For pictures of 1×4×4; no class wins everywhere."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        net = nn.Sequential(nn.Flatten(), nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, classes))
    with torch.no_grad():
        net[3].weight.mul_(6)  # type: ignore[operator]
        net[3].bias.sub_(net(pictures(500)).mean(dim=0))  # type: ignore[operator]
    return net


def pictures(n: int = 30) -> torch.Tensor:
    return torch.rand(n, 1, 4, 4, generator=torch.Generator().manual_seed(1))


def named(module: nn.Module, classes: int = 3) -> Model:
    return Model(module, input_shape=(1, 4, 4), classes=classes)


def as_seen(model: Model, x: torch.Tensor) -> Data:
    """Labelled as the model sees them, so that every success is the attack's."""
    return Data(x, model.predict(x), model.classes)


@dataclass
class SimpleLogits:
    """An output with `logits`, as transformers' models give."""

    logits: torch.Tensor


class After(nn.Module):
    """A network with something done to its input and its logits."""

    def __init__(
        self,
        net: nn.Module,
        before: Callable[[torch.Tensor], torch.Tensor] = lambda x: x,
        after: Callable[[torch.Tensor], Any] = lambda x: x,
    ) -> None:
        super().__init__()
        self.net, self.before, self.after = net, before, after

    def forward(self, x: torch.Tensor) -> Any:
        return self.after(self.net(self.before(x)))
