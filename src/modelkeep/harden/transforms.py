"""What a defender does to an input before the network sees it, or to the logits after: compress, crop, randomise.

None of these stops an attacker who knows of them; `modelkeep.attack.bpda` and `eot` make the models that such an
attacker uses. Inputs are `(n, channels, height, width)` in the owner's units. What is random is drawn from torch's
global generator, as dropout does, and for each example on its own.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from dataclasses import replace

import torch
from torch import nn
from torch.nn.functional import affine_grid, grid_sample, interpolate

from modelkeep.core.card import Preprocessing
from modelkeep.core.errors import InputError, ModelError, bad_parameter
from modelkeep.core.model import Model


def defended(model: Model, transform: nn.Module) -> Model:
    """A copy of the model with `transform` in front of its preprocessing, or behind it if it is `LogitNoise`.

    The parts are called `transform`, `preprocessing` and `network`, so `bpda(defended(model, Jpeg()), "transform")` is
    what an attacker differentiates who knows of the compression. To keep it in a file, save the model itself and defend
    it again.

    >>> from modelkeep.zoo.architectures import small_cnn
    >>> model = Model(small_cnn((3, 8, 8), 10), input_shape=(3, 8, 8), classes=10)
    >>> defended(model, Foveate(0.75)).predict(model.probe()).shape
    torch.Size([2])
    """
    if not isinstance(transform, LogitNoise) and any(isinstance(part, LogitNoise) for part in transform.modules()):
        raise InputError("LogitNoise belongs behind the network and the rest in front of it: call defended for each.")
    for part in transform.modules():
        bounds = getattr(part, "bounds", model.bounds)
        if bounds != model.bounds:
            raise InputError(
                f"{type(part).__name__} is for inputs within {bounds}, but the model takes inputs within "
                f"{model.bounds}. Make it with bounds={model.bounds}."
            )
    transform, network = copy.deepcopy(transform), copy.deepcopy(model.module)
    card = replace(model.card, architecture=None, arguments={})
    if isinstance(transform, LogitNoise):
        parts = OrderedDict(network=network, transform=transform)
    else:
        card = replace(card, preprocessing=Preprocessing())
        parts = OrderedDict(transform=transform.to(model.dtype), preprocessing=preprocessing_of(model), network=network)
    try:
        made = Model.from_card(nn.Sequential(parts), card, model.device)
        with made.frozen(seed=0):
            made.logits(made.probe())
    except (RuntimeError, IndexError, ValueError, ModelError) as error:
        raise InputError(
            f"{type(transform).__name__} does not fit a model for inputs of shape {model.input_shape}: {error}"
        ) from error
    return made


def preprocessing_of(model: Model) -> nn.Module:
    """The model's preprocessing as a module of its own."""
    return model.card.preprocessing.module(model.input_shape).to(model.device, model.dtype)


class Foveate(nn.Module):
    """Look at the middle only (Luo2015): crop the central `share` of each side and stretch it to full size."""

    def __init__(self, share: float = 0.8) -> None:
        super().__init__()
        if not 0 < share <= 1:
            raise bad_parameter("Foveate", "share", "above 0 and at most 1", share)
        self.share = share

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sides = x.shape[-2:]
        height, width = (max(1, round(self.share * side)) for side in sides)
        top, left = (sides[0] - height) // 2, (sides[1] - width) // 2
        middle = x[..., top : top + height, left : left + width]
        return interpolate(middle, size=sides, mode="bilinear", align_corners=False)

    def extra_repr(self) -> str:
        return f"share={self.share}"


class RandomResize(nn.Module):
    """Shrink each image to a random share of its size, at least `smallest`, and put it at a random place on `fill`.

    Xie2018 enlarges 299 pixels to up to 331 and pads to 331; as not every network takes larger images, the
    result here has the size of the input. Differentiable for any one draw: attack it with `eot`.
    """

    def __init__(self, smallest: float = 0.8, fill: float = 0.0) -> None:
        super().__init__()
        if not 0 < smallest <= 1:
            raise bad_parameter("RandomResize", "smallest", "above 0 and at most 1", smallest)
        self.smallest = smallest
        self.fill = fill

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        drawn = torch.rand(3, len(x), device=x.device, dtype=x.dtype)
        share = self.smallest + (1 - self.smallest) * drawn[0]
        across, down = (2 * drawn[1:] - 1) * (1 - share)  # the centre, so that all of it stays on the canvas
        return self.place(x, share, across, down)

    def place(self, x: torch.Tensor, share: torch.Tensor, across: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
        """Each image at `share: (n,)` of its size, its centre at (across, down) where the canvas is [-1, 1]²."""
        zero = torch.zeros_like(share)
        # From a place on the canvas back to the place in the image: (u - centre) / share.
        back = torch.stack([1 / share, zero, -across / share, zero, 1 / share, -down / share], dim=1).view(-1, 2, 3)
        grid = affine_grid(back, list(x.shape), align_corners=False)
        return grid_sample(x - self.fill, grid, padding_mode="zeros", align_corners=False) + self.fill

    def extra_repr(self) -> str:
        return f"smallest={self.smallest}, fill={self.fill}"


class LogitNoise(nn.Module):
    """Gaussian noise of standard deviation `scale` on the logits (after Nguyen2018)."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        if not scale >= 0:
            raise bad_parameter("LogitNoise", "scale", "a number of at least 0", scale)
        self.scale = scale

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        return logits + self.scale * torch.randn_like(logits)

    def extra_repr(self) -> str:
        return f"scale={self.scale}"
