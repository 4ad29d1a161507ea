"""A deep contractive autoencoder in front of a network (Gu2014; Saha2020, section 2.3.1).

It learns to give clean inputs back from noisy ones, through narrow layers that hardly move when the input does. An
attack on both together finds more than one on the network alone, and through it gradients flow: no `bpda` is needed.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn

from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.model import Model
from modelkeep.harden.transforms import defended
from modelkeep.training import Step

Bounds = tuple[float, float] | None


class Autoencoder(nn.Module):
    """Dense tanh layers of the given widths down to the code, and the same back up; gives inputs within `bounds`.

    >>> autoencoder = Autoencoder((3, 4, 4), widths=(20, 5))
    >>> autoencoder.encode(torch.rand(2, 3, 4, 4)).shape, autoencoder(torch.rand(2, 3, 4, 4)).shape
    (torch.Size([2, 5]), torch.Size([2, 3, 4, 4]))
    """

    def __init__(self, input_shape: Sequence[int], widths: Sequence[int], bounds: Bounds = (0.0, 1.0)) -> None:
        super().__init__()
        if not widths or min(widths) < 1:
            raise bad_parameter("Autoencoder", "widths", "one or more widths, each at least 1", widths)
        self.input_shape = tuple(input_shape)
        self.bounds = bounds
        sizes = [math.prod(input_shape), *widths]
        self.encoder = nn.ModuleList(nn.Linear(before, after) for before, after in pairwise(sizes))
        upwards = OrderedDict[str, nn.Module]()
        for i, (before, after) in enumerate(pairwise(reversed(sizes)), start=1):
            upwards[f"linear{i}"] = nn.Linear(before, after)
            upwards[f"tanh{i}"] = nn.Tanh()
        upwards.popitem()  # what leaves the last layer is not squeezed by tanh
        self.decoder = nn.Sequential(upwards)

    def layers(self, x: torch.Tensor) -> list[torch.Tensor]:
        """The values of the encoder's layers, from the flat input to the code."""
        values = [x.flatten(1)]
        for layer in self.encoder:
            values.append(torch.tanh(layer(values[-1])))
        return values

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        """The code `(n, widths[-1])`."""
        return self.layers(x)[-1]

    def decode(self, code: torch.Tensor) -> torch.Tensor:
        """The input that belongs to a code."""
        out = self.decoder(code).view(-1, *self.input_shape)
        if self.bounds is not None:
            low, high = self.bounds
            out = low + (high - low) * torch.sigmoid(out)
        assert isinstance(out, torch.Tensor)
        return out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decode(self.encode(x))


def with_autoencoder(model: Model, *, widths: Sequence[int] = (128, 32), seed: int = 0) -> Model:
    """A copy of the model with a new autoencoder in front, which is to be trained:

    `fit(defended, data, Contractive(noise=0.1), Recipe(epochs=…, trainable=("transform",)), seed=…, held_out=…)`. The
    network behind it is not changed by that; the held-out accuracy is that of both together.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        autoencoder = Autoencoder(model.input_shape, widths, model.bounds)
    return defended(model, autoencoder)


@dataclass(frozen=True)
class Contractive:
    """The objective: the squared error of what comes back from a noisy input, and `penalty` times the contraction.

    `noise` is the standard deviation of the noise, in the owner's units.
    """

    penalty: float = 1e-3
    noise: float = 0.1

    def __post_init__(self) -> None:
        for name in ("penalty", "noise"):
            if not 0 <= getattr(self, name) < math.inf:
                raise bad_parameter("Contractive", name, "a number of at least 0", getattr(self, name))

    def __call__(
        self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        autoencoder = dict(model.module.named_children()).get("transform")
        if not isinstance(autoencoder, Autoencoder):
            raise InputError("Contractive trains the autoencoder of a model that was made by with_autoencoder.")
        noisy = x + self.noise * torch.randn(x.shape, generator=step.generator, device=x.device, dtype=x.dtype)
        values = autoencoder.layers(noisy if model.bounds is None else noisy.clamp(*model.bounds))
        error = (autoencoder.decode(values[-1]) - x).square().flatten(1).sum(dim=1).mean()
        contraction = contraction_of(autoencoder, values).mean()
        return error + self.penalty * contraction, {"reconstruction": error, "contraction": contraction}


def contraction_of(autoencoder: Autoencoder, values: Sequence[torch.Tensor]) -> torch.Tensor:
    """Σ_l ‖∂h_l/∂h_{l-1}‖² over the encoder's layers, for each example `(n,)`; `values` are those of `layers(x)`.

    Layer by layer, as Gu & Rigazio do: the Jacobian of a tanh layer is diag(1 - h²)·W, so its squared norm is a sum
    that needs no differentiation. For one layer it is the contractive penalty of the whole encoder.
    """
    norms = [
        (1 - h.square()).square() @ layer.weight.square().sum(dim=1)
        for h, layer in zip(values[1:], autoencoder.encoder, strict=True)
        if isinstance(layer, nn.Linear)
    ]
    return torch.stack(norms).sum(dim=0)
