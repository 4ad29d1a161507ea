"""The methods that others know by name, each as a choice of slice, quantity and distribution (thesis 002, 3.4)."""

from __future__ import annotations

from dataclasses import replace

import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.model import Model
from modelkeep.explain.distributions import Gaussian, Line, Path
from modelkeep.explain.influence import influence
from modelkeep.explain.quantities import PredictedScore, Quantity
from modelkeep.explain.result import Explained

PREDICTED = PredictedScore()


def saliency(model: Model, data: Data | torch.Tensor, *, quantity: Quantity = PREDICTED, seed: int) -> Explained:
    """The gradient at the point (Simonyan et al. 2014)."""
    return influence(model, data, quantity=quantity, seed=seed)


def smooth_grad(
    model: Model,
    data: Data | torch.Tensor,
    *,
    sigma: float,
    count: int = 50,
    quantity: Quantity = PREDICTED,
    seed: int,
) -> Explained:
    """The mean gradient under Gaussian noise (Smilkov et al. 2017). `sigma` is in units of the input."""
    return influence(model, data, quantity=quantity, distribution=Gaussian(sigma, count), seed=seed)


def integrated_gradients(
    model: Model,
    data: Data | torch.Tensor,
    *,
    baseline: float | torch.Tensor,
    count: int = 50,
    quantity: Quantity = PREDICTED,
    seed: int,
) -> Explained:
    """The mean gradient on the line from the baseline, times the distance (Sundararajan et al. 2017, eq. 3.3)."""
    return influence(model, data, quantity=quantity, distribution=Line(baseline, count), seed=seed)


def channel_influence(
    model: Model,
    data: Data | torch.Tensor,
    *,
    slice: str,
    call: int | None = None,
    quantity: Quantity = PREDICTED,
    seed: int,
) -> Explained:
    """How the quantity reacts when a whole channel rises: its influence, summed over positions, `(n, channels)`."""
    found = _feature_map(influence(model, data, slice=slice, call=call, quantity=quantity, seed=seed))
    return replace(
        found,
        influence=found.influence.flatten(2).sum(dim=2),
        activation=found.activation.flatten(2).mean(dim=2),
        distribution=f"{found.distribution}, all positions of a channel",
    )


def grad_cam(
    model: Model,
    data: Data | torch.Tensor,
    *,
    slice: str,
    call: int | None = None,
    quantity: Quantity = PREDICTED,
    seed: int,
) -> Explained:
    """Each channel's mean influence times its activation (Selvaraju et al. 2017).

    The map that the paper shows is the positive part of the sum over channels, `found.heat().relu()`.
    """
    found = _feature_map(influence(model, data, slice=slice, call=call, quantity=quantity, seed=seed))
    mean = found.influence.flatten(2).mean(dim=2)
    shared = mean.reshape(*mean.shape, *[1] * (found.influence.ndim - 2)).expand_as(found.influence)
    return replace(
        found,
        influence=shared,
        attribution=shared * found.activation,
        distribution=f"{found.distribution}, the mean of a channel's positions (Grad-CAM)",
    )


def conductance(
    model: Model,
    data: Data | torch.Tensor,
    *,
    slice: str,
    baseline: float | torch.Tensor,
    call: int | None = None,
    count: int = 50,
    quantity: Quantity = PREDICTED,
    seed: int,
) -> Explained:
    """The part of the input's integrated gradients that flows through each unit (Dhamdhere et al. 2018)."""
    return influence(
        model, data, slice=slice, call=call, quantity=quantity, distribution=Path(baseline, count), seed=seed
    )


def _feature_map(found: Explained) -> Explained:
    if found.influence.ndim < 3:
        raise InputError(
            f"'{found.slice}' has units, not channels with positions: its value has shape "
            f"{tuple(found.influence.shape[1:])}. Choose a convolution or what follows it."
        )
    return found
