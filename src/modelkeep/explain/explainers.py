"""The methods by the names under which people ask for them, each at any place, with the settings that suit the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.slices import Place
from modelkeep.explain import (
    Distribution,
    Explained,
    Gaussian,
    Line,
    Path,
    Point,
    Quantity,
    Sampler,
    channel_influence,
    grad_cam,
    influence,
)

Method = Literal["integrated-gradients", "saliency", "smooth-grad", "conductance", "grad-cam", "channel-influence"]
METHODS: tuple[Method, ...] = get_args(Method)
OF_FEATURE_MAPS: tuple[Method, ...] = ("grad-cam", "channel-influence")

NOISE = 0.15  # the SmoothGrad paper's 10 % to 20 % of the range
BATCH = 16


@dataclass(frozen=True, eq=False)
class Explainer:
    """A method for one model, on data like `data`: an empty picture or the average row is its baseline.

    `steps` is the number of points of a line, or of draws.
    """

    method: Method
    model: Model
    data: Data
    steps: int = 50

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise bad_parameter("Explainer", "method", f"one of {', '.join(METHODS)}", self.method)

    def __call__(self, chosen: Data, place: Place, quantity: Quantity, seed: int) -> Explained:
        """How the quantity depends on the place, for the chosen examples."""
        if self.method in OF_FEATURE_MAPS:
            preset = grad_cam if self.method == "grad-cam" else channel_influence
            return preset(self.model, chosen, slice=place.name, call=place.call, quantity=quantity, seed=seed)
        return influence(
            self.model,
            chosen,
            slice=place.name,
            call=place.call,
            quantity=quantity,
            distribution=self._distribution(),
            batch_size=BATCH,
            seed=seed,
        )

    def _distribution(self) -> Distribution:
        bounds = self.model.bounds
        baseline = bounds[0] if bounds is not None else self.data.x.mean(dim=0)
        match self.method:
            case "saliency":
                return Point()
            case "conductance":
                return Path(baseline, self.steps)
            case "smooth-grad" if bounds is not None:
                return Gaussian(NOISE * (bounds[1] - bounds[0]), self.steps)
            case "smooth-grad":
                return Sampler(f"Gaussian of {NOISE:g} of each feature's spread", self._noise, self.steps)
            case _:
                return Line(baseline, self.steps)

    def _noise(self, centre: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """The same noise for every point, in units of each feature's spread."""
        noise = torch.randn(centre.shape[1:], generator=generator)
        return centre + (NOISE * spread(self.data) * noise).to(centre)


def spread(data: Data) -> torch.Tensor:
    """The standard deviation of each feature, 1 where there is only one example."""
    return data.x.std(dim=0) if len(data) > 1 else torch.ones_like(data.x[0])
