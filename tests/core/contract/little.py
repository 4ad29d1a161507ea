"""Little models, and an honest little method, for the tests of the contract."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from modelkeep import Data, Model, Preprocessing, Result
from modelkeep.core.contract import ContractViolation, check_method
from modelkeep.core.results import measured


def images(classes: int = 4, **last: nn.Module) -> Model:
    """A network in which train mode, gradients and preprocessing all matter."""
    torch.manual_seed(0)
    layers = OrderedDict[str, nn.Module](
        convolution=nn.Conv2d(1, 4, 3, padding=1),
        normalisation=nn.BatchNorm2d(4),
        rectifier=nn.ReLU(),
        flat=nn.Flatten(),
        hidden=nn.Linear(256, 8),
        dropout=nn.Dropout(),
        output=nn.Linear(8, classes),
        **last,
    )
    return Model(
        nn.Sequential(layers), input_shape=(1, 8, 8), classes=classes, preprocessing=Preprocessing((0.5,), (0.5,))
    )


class Branching(nn.Module):
    """torch.fx cannot follow it, so its slices are hooks."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(5, 8)
        self.dropout = nn.Dropout()
        self.output = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.hidden(x)
        z = z.relu() if len(x) else z  # a proxy of torch.fx has no length
        output: torch.Tensor = self.output(self.dropout(z))
        return output


def table() -> Model:
    torch.manual_seed(0)
    return Model(Branching(), input_shape=(5,), classes=("no", "yes"), bounds=None)


def examples(model: Model, n: int = 6) -> Data:
    x = torch.rand(n, *model.input_shape, generator=torch.Generator().manual_seed(1))
    return Data(x, torch.arange(n) % len(model.classes), model.classes)


@dataclass(frozen=True, kw_only=True, eq=False)
class Mean(Result):
    mean: float

    def rows(self) -> list[tuple[str, str]]:
        return [("mean", f"{self.mean:.3f}")]


def honest(model: Model, data: Data, seed: int) -> Mean:
    """The mean logit of noisy inputs."""
    model.require_fit(data)
    x = model.check_inputs(data.x)
    with measured(seed, model.fingerprint(), data.fingerprint()) as provenance, model.frozen(seed):
        noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed))
        return Mean(provenance=provenance(), mean=float(model.logits(x + noise).mean()))


def violation(method: Callable[..., Any], model: Model | None = None) -> str:
    model = model or images()
    with pytest.raises(ContractViolation) as caught:
        check_method(method, model, examples(model), seed=3)
    return str(caught.value)
