"""A trained detector: a second network that learns to tell attacked inputs from clean ones (Saha2020, 2.3.2).

It sees the inputs themselves or what the model makes of them at a slice (Metzen2017).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import torch
from torch import nn

from modelkeep.attack import Attacked
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.model import Model
from modelkeep.harden.detection import Detector, calibrate
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.zoo.architectures import dense, small_cnn


def train_detector(
    model: Model,
    clean: Data,
    attack: Callable[[Model, Data], Attacked],
    *,
    at: str = "input",
    network: nn.Module | None = None,
    recipe: Recipe | None = None,
    false_positive_rate: float = 0.05,
    seed: int = 0,
) -> Detector:
    """A network that learns to tell clean inputs from those of `attack`, at the input or at a slice of the model.

    Four fifths of `clean` are attacked and trained on, the rest sets the threshold.

    Args:
        model: The model to watch over. It is left as it is.
        clean: Clean examples with their labels.
        attack: What it should learn to see, such as `PGD(radius=0.1)`.
        at: The place in the model whose values it looks at; see `model.slices()`.
        network: Gives two logits (clean, attacked) for these values; a small CNN or a dense network by default.
        recipe: How it is trained; twenty epochs of Adam by default.
        false_positive_rate: The share of clean inputs that may be flagged.
        seed: For the split and the training.
    """
    learned, kept = clean.split(0.8, 0.2, seed=seed)
    attacked = attack(model, learned)
    found = attacked.success & (attacked.distance > 0)
    if int(found.sum()) < 2:
        raise InputError(f"The attack found only {int(found.sum())} inputs, which is too few to learn from.")
    values = nn.Identity() if at == "input" else _Values(model, at)
    inputs = model.check_inputs(torch.cat([attacked.original, attacked.adversarial[found]]))
    with torch.no_grad():
        x = torch.cat([values(part) for part in torch.split(inputs, 256)]).cpu()
    y = (torch.arange(len(x)) >= len(learned)).long()
    shape = tuple(x.shape[1:])
    if network is None:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            picture = len(shape) == 3 and min(shape[1:]) >= 4
            network = small_cnn(shape, 2) if picture else dense(shape, 2)
    data = Data(x.float(), y, ("clean", "attacked"), name=f"{clean.name}, clean and attacked, at {at}")
    watcher = Model(network.to(model.dtype), input_shape=shape, classes=data.classes, bounds=None, device=model.device)
    fit(watcher, data, cross_entropy, recipe if recipe is not None else Recipe(epochs=20), seed=seed)
    score = nn.Sequential(OrderedDict(values=values, network=watcher.module, odds=_Odds()))
    return calibrate(f"network at {at}", model, score, kept, false_positive_rate=false_positive_rate)


class _Values(nn.Module):
    """What the model computes at a place."""

    def __init__(self, model: Model, at: str) -> None:
        super().__init__()
        self.at = at
        self.cut = model.slice(at)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cut.h(x).value

    def extra_repr(self) -> str:
        return f"at={self.at!r}"


class _Odds(nn.Module):
    """The logit of the second of two classes."""

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        return logits[:, 1] - logits[:, 0]
