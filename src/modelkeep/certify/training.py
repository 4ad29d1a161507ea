"""Train a network to be certified, in one call: start orthogonal, train against the bound, bound it soundly."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from modelkeep.certify.gloro import GloRoNet
from modelkeep.certify.guarantees import Guarantee, Standard
from modelkeep.certify.objectives import EMMA, CertifiedObjective, GloRoTrades
from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.core.norms import Norm
from modelkeep.training import Linear, Recipe, fit

_ABOVE = 1.1  # train for a little more than is asked for: what is learnt by heart does not all carry over


def make_orthogonal(module: nn.Module, seed: int) -> None:
    """Make the weights of all dense and convolutional layers orthogonal and their biases 0 (Leino2022, A.4)."""
    generator = torch.Generator().manual_seed(seed)
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Conv1d | nn.Conv2d):
            with torch.no_grad():
                part.weight.copy_(nn.init.orthogonal_(torch.empty(part.weight.shape), generator=generator))
                if part.bias is not None:
                    part.bias.zero_()


def train_certified(
    model: Model,
    data: Data,
    radius: float,
    *,
    seed: int = 0,
    guarantee: Guarantee | None = None,
    norm: Norm = "l2",
    objective: CertifiedObjective | None = None,
    recipe: Recipe | None = None,
    from_scratch: bool = True,
    held_out: Data | None = None,
    checkpoint: str | Path | None = None,
) -> GloRoNet:
    """Train `model.module` in place so that its answers can be certified at `radius`; give it back with its ⊥.

    `from_scratch` draws new orthogonal weights first. Unless told otherwise the objective is EMMA, for relaxed
    guarantees TRADES, at a radius one tenth above; ten epochs at a falling rate.

    >>> from modelkeep import Data
    >>> data = Data(torch.eye(4), torch.arange(4) % 2, ("even", "odd"))
    >>> model = Model(nn.Linear(4, 2), input_shape=(4,), classes=data.classes)
    >>> net = train_certified(model, data, 0.3, seed=0, recipe=Recipe(epochs=300, learning_rate=0.1))
    >>> bool((net.predict(data.x) == data.y).all())
    True
    """
    guarantee = guarantee if guarantee is not None else Standard()
    guarantee.require_promise(len(model.classes))
    if objective is None:
        goal = _ABOVE * radius
        standard = isinstance(guarantee, Standard)
        objective = EMMA(goal, norm=norm) if standard else GloRoTrades(goal, weight=1.5, norm=norm, guarantee=guarantee)
    if recipe is None:
        recipe = Recipe(epochs=10, batch_size=256, learning_rate=Linear(5e-3, 0.0))
    if from_scratch:
        make_orthogonal(model.module, seed)
    fit(model, data, objective, recipe, seed=seed, held_out=held_out, checkpoint=checkpoint)
    return GloRoNet(model, radius, guarantee, norm=norm)
