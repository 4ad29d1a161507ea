"""Polynomial: a quadratic in place of an activation, because sums and products are all that encrypted values allow."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import nn

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, measured
from modelkeep.training import Recipe, cross_entropy, fit

ACTIVATIONS = (nn.ReLU, nn.LeakyReLU, nn.ELU, nn.SELU, nn.GELU, nn.SiLU, nn.Softplus, nn.Tanh, nn.Sigmoid, nn.Hardtanh)
SAMPLE = 512  # examples whose values decide where a quadratic must be close; more changed the fit by less than 1 %
FLATTEST = 8.0  # the vertex of a quadratic is at most so many standard deviations away; further off it is a line


class Polynomial(nn.Module):
    """`gain · (x + shift)² + offset`, each a number that is trained.

    Every quadratic has this form, and the form costs one product of ciphertexts: shift, gain and offset vanish in the
    affine layers before and after.

    >>> Polynomial(gain=0.5, shift=1.0, offset=-0.5)(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 1.5000], grad_fn=<AddBackward0>)
    """

    def __init__(self, gain: float = 1.0, shift: float = 0.0, offset: float = 0.0) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(float(gain)))
        self.shift = nn.Parameter(torch.tensor(float(shift)))
        self.offset = nn.Parameter(torch.tensor(float(offset)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The quadratic of each value."""
        return self.gain * torch.square(x + self.shift) + self.offset

    @classmethod
    def near(cls, activation: nn.Module, values: torch.Tensor) -> Polynomial:
        """The quadratic with the least square error to `activation` on these values.

        >>> p = Polynomial.near(nn.ReLU(), torch.linspace(-1, 1, 1001))
        >>> round(p.gain.item(), 2)  # 15 / 32: the closed form for ReLU on [-1, 1]
        0.47
        """
        x = values.detach().flatten().double().numpy()
        with torch.no_grad():
            wanted = activation(torch.from_numpy(x)).numpy()
        center, spread = float(x.mean()), float(x.std()) or 1.0
        square, slope, constant = np.polyfit((x - center) / spread, wanted, 2)
        # Around a vertex far away the square is all rounding error: a line is given a slight bend instead.
        flattest = abs(slope) / (2 * FLATTEST)
        if abs(square) < max(flattest, 1e-6):
            bent = float(np.copysign(max(flattest, 1e-6), square))
            constant -= bent - square  # the mean of the squared values is 1 in these units
            square = bent
        shift = slope / (2 * square)  # in units of the spread
        return cls(square / spread**2, shift * spread - center, constant - square * shift**2)


@dataclass(frozen=True, kw_only=True, eq=False)
class Polynomialised(Result, kind="polynomialised"):
    """What replacing the activations did to the accuracy on held-out data: before, replaced, and after training."""

    replaced: tuple[str, ...]
    before: Estimate
    replaced_only: Estimate
    after: Estimate

    def rows(self) -> list[tuple[str, str]]:
        """The layers and the three accuracies."""
        return [
            ("replaced", ", ".join(self.replaced)),
            ("accuracy before", str(self.before)),
            ("replaced, not trained", str(self.replaced_only)),
            ("accuracy after", str(self.after)),
        ]


def make_polynomial(
    model: Model,
    train: Data,
    held_out: Data,
    *,
    start: Literal["least-squares", "square"] = "least-squares",
    recipe: Recipe | None = None,
    seed: int = 0,
) -> tuple[Model, Polynomialised]:
    """A copy of the model that encrypted values can pass through, fine-tuned by the one loop, and what that cost.

    Activations become quadratics, max-pooling becomes average pooling over the same windows. The quadratics start as
    the least-squares fit to the values that `train` gives, or as a square, and are then trained with the weights.
    """
    recipe = recipe or Recipe(epochs=10, learning_rate=1e-3)
    with measured(seed, model.fingerprint(), train.fingerprint(), model.warnings) as provenance:
        made = Model.from_card(deepcopy(model.module), model.card, model.device)
        replaced = _replace(made, train.first(SAMPLE), start)
        if not replaced:
            raise InputError(
                "No part of the network is an activation or a max-pool that can be replaced. An activation that is "
                "called as a function in the code must be made a module first."
            )
        before, untrained = _accuracy(model, held_out), _accuracy(made, held_out)
        fit(made, train, cross_entropy, recipe, seed=seed)
        after = _accuracy(made, held_out)
    return made, Polynomialised(
        replaced=replaced, before=before, replaced_only=untrained, after=after, provenance=provenance()
    )


def _replace(model: Model, data: Data, start: str) -> tuple[str, ...]:
    """Put quadratics and average pools in place, from the input on, and return their names."""
    found = [name for name, part in model.module.named_modules() if isinstance(part, (*ACTIVATIONS, nn.MaxPool2d))]
    for name in found:
        part = model.module.get_submodule(name)
        if isinstance(part, nn.MaxPool2d):
            _put(model, name, nn.AvgPool2d(part.kernel_size, part.stride, part.padding))
        elif start == "square":
            _put(model, name, Polynomial())
        else:  # each is fitted behind the quadratics before it, so that errors do not add up unseen
            _put(model, name, Polynomial.near(part, _values_at(model, name, data)))
    return tuple(found)


def _values_at(model: Model, name: str, data: Data) -> torch.Tensor:
    seen: list[torch.Tensor] = []
    hook = model.module.get_submodule(name).register_forward_pre_hook(lambda _, given: seen.append(given[0].detach()))
    try:
        model.logits(data.rows(range(len(data))))
    finally:
        hook.remove()
    return torch.cat([values.flatten() for values in seen])


def _put(model: Model, name: str, part: nn.Module) -> None:
    parent, _, last = name.rpartition(".")
    setattr(model.module.get_submodule(parent), last, part.to(model.device, model.dtype).eval())


def _accuracy(model: Model, data: Data) -> Estimate:
    right = [(model.predict(x) == y).sum().item() for x, y in data.batches(1000)]
    return Estimate.rate(int(sum(right)), len(data))


def remedies() -> Sequence[tuple[tuple[type[nn.Module], ...], str]]:
    """What to do about a module that encrypted values cannot pass, by its class."""
    replace = "let ModelKeep replace and fine-tune it: --replace, or make_polynomial(model, train, held_out)"
    return (
        ((nn.MaxPool1d, nn.MaxPool2d, nn.AdaptiveMaxPool2d), f"use average pooling, or {replace}"),
        (ACTIVATIONS, f"use a polynomial such as modelkeep.encrypt.polynomial.Polynomial, or {replace}"),
        ((nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm2d), "use batch norm, which is affine once it is trained"),
        ((nn.Softmax, nn.LogSoftmax), "leave it out: the client can take the softmax of the logits"),
    )
