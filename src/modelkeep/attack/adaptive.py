"""BPDA and EOT: attack a model through its non-differentiable or random parts (Athalye2018).

Each makes a model that any attack can be given instead of the defended one. It shares the weights of the original, so
it follows when that is trained; everything else is a copy, and the original stays as it is.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import Any

import torch
from torch import nn

from modelkeep.core.card import Card
from modelkeep.core.errors import ModelError, bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.slices.halves import unknown_place


def bpda(model: Model, place: str, backward: Callable[[torch.Tensor], torch.Tensor] | None = None) -> Model:
    """The same answers, with the gradient of the module at `place` replaced by another (Athalye's BPDA).

    Args:
        model: The model; its weights are shared with the new one.
        place: The name of a module as in `model.module.named_modules()`, such as "transform" of a defended model.
        backward: What to differentiate instead of that module: something smooth with nearly the same output. None is
            the identity, for modules that hardly change their input (straight-through).

    >>> class Round(nn.Module):
    ...     def forward(self, x):
    ...         return x.round()
    >>> model = Model(nn.Sequential(Round(), nn.Linear(4, 2)), input_shape=(4,), classes=2)
    >>> x = torch.rand(3, 4, requires_grad=True)
    >>> def slope(model):
    ...     return float(torch.autograd.grad(model.forward(x)[:, 0].sum(), x)[0].abs().max())
    >>> slope(model), slope(bpda(model, "0")) > 0, bool((bpda(model, "0").logits(x) == model.logits(x)).all())
    (0.0, True, True)
    """
    module = shared_copy(model.module)
    parts = dict(module.named_modules())
    if place not in parts or place == "":
        raise unknown_place(place, "the network has no module of that name", [name for name in parts if name])
    module.set_submodule(place, _Replaced(place, parts[place], backward))
    return Model.from_card(module, _unnamed(model), model.device)


def eot(model: Model, samples: int) -> Model:
    """A random model's mean answer, whose gradient follows all of its randomness (expectation over transformation).

    Attacks average by themselves where a model is random. Given a model that is a mean already, they follow it with its
    number of samples, and judge what they found by single answers of the model in it: that is the one in use.

    The logits are the logarithms of the probabilities, averaged over `samples` passes with fresh random draws. A pass
    costs `samples` passes of the original, in time and in memory for the gradient.

    >>> model = Model(nn.Linear(4, 2), input_shape=(4,), classes=2)
    >>> x = torch.rand(3, 4)
    >>> torch.allclose(eot(model, samples=5).probs(x), model.probs(x))
    True
    """
    if samples < 1:
        raise bad_parameter("eot", "samples", "at least 1", samples)
    module = Expected(shared_copy(model.module), samples)
    return Model.from_card(module, _unnamed(model), model.device)


def averaged(model: Model, samples: int) -> Model:
    """The model's mean answer as of `eot`, around the very same module; a model made by `eot` is one already."""
    if isinstance(model.module, Expected):
        return model
    return Model.from_card(Expected(model.module, samples), _unnamed(model), model.device)


def victim_of(model: Model) -> Model:
    """The model whose mean answer this is, where it was made by `eot`; else the model itself."""
    if not isinstance(model.module, Expected):
        return model
    return Model.from_card(model.module.network, model.card, model.device)


def _unnamed(model: Model) -> Card:
    """The card without the factory, which would make another module."""
    return replace(model.card, architecture=None, arguments={})


def shared_copy(module: nn.Module) -> nn.Module:
    """A copy of the network's structure around the very same parameters and buffers."""
    with warnings.catch_warnings(action="ignore", category=FutureWarning):  # torch's own, on copying traced graphs
        return copy.deepcopy(module, {id(tensor): tensor for tensor in chain(module.parameters(), module.buffers())})


def straight_through(exact: torch.Tensor, smooth: torch.Tensor) -> torch.Tensor:
    """The values of `exact`, bit for bit, with the gradient of `smooth`, which has the same shape."""
    swapped = _Swap.apply(smooth, exact.detach())  # type: ignore[no-untyped-call]
    assert isinstance(swapped, torch.Tensor)
    return swapped


class _Replaced(nn.Module):
    """The module's own output, with the gradient of `approximation`."""

    def __init__(
        self, place: str, module: nn.Module, approximation: Callable[[torch.Tensor], torch.Tensor] | None
    ) -> None:
        super().__init__()
        self.place = place
        self.module = module
        self.approximation = approximation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            exact = self.module(x)
        smooth = x if self.approximation is None else self.approximation(x)
        if smooth.shape != exact.shape:
            what = "its input has" if self.approximation is None else "the approximation gives"
            raise ModelError(
                f"'{self.place}' gives shape {tuple(exact.shape)}, but {what} {tuple(smooth.shape)}, so its gradient "
                "cannot be passed on. Give bpda a backward=… that gives the same shape."
            )
        return straight_through(exact, smooth)


class _Swap(torch.autograd.Function):
    """`exact` on the way forward, the gradient to `smooth` on the way back. A sum of the two would round."""

    @staticmethod
    def forward(ctx: Any, smooth: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
        return exact.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient, None


class Expected(nn.Module):
    """log E[softmax(network(x))] over the network's randomness."""

    def __init__(self, network: nn.Module, samples: int) -> None:
        super().__init__()
        self.network = network
        self.samples = samples

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # One pass after the other: some networks draw once per batch, and one large batch would share that draw.
        drawn = torch.stack([self.network(x).log_softmax(dim=1) for _ in range(self.samples)])
        return drawn.logsumexp(dim=0) - math.log(self.samples)

    def extra_repr(self) -> str:
        return f"samples={self.samples}"
