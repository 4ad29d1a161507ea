"""The methods that others know by name, as choices of place, quantity and distribution (Leino2022, section 3.4)."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch

from modelkeep.core.data import Data
from modelkeep.core.embedding import find_embedding
from modelkeep.core.errors import InputError
from modelkeep.core.examples import Stored, mean_and_spread
from modelkeep.core.method import declaration_of, declare, setting
from modelkeep.core.model import Model
from modelkeep.explain.distributions import Distribution, Gaussian, Line, Path, Point
from modelkeep.explain.influence import Influence
from modelkeep.explain.orientation import require_channels
from modelkeep.explain.places import last_feature_map
from modelkeep.explain.quantities import PredictedScore, Quantity
from modelkeep.explain.result import Explained

NOISE = 0.15  # of the range of the inputs, or of each feature's spread: Smilkov2017 recommends 0.1 to 0.2


@dataclass(frozen=True, kw_only=True)
class Explainer:
    """What all explainers share."""

    of_feature_maps: ClassVar[bool] = False

    slice: str | None = setting("A name from `model.slices()`; else the input, or the last feature map.", default=None)
    call: int | None = setting("Which call of a module that is called more than once.", default=None)
    quantity: Quantity = setting("What to explain.", default=PredictedScore())
    # Small, because a large network holds all its activations for each of them.
    batch_size: int = setting("Examples that are run at once.", default=16, at_least=1)

    def __call__(self, model: Model, data: Data | torch.Tensor, *, seed: int = 0) -> Explained:
        """Explain each of the examples."""
        place = self.slice if self.slice is not None else self.usual_place(model)
        if self.of_feature_maps or isinstance(self, ChannelInfluence):
            require_channels(model, place, self.call)
        method = Influence(
            slice=place,
            call=self.call,
            quantity=self.quantity,
            distribution=_where_gradients_are(model, self.suit(model, data).distribution()),
            batch_size=self.batch_size,
        )
        # The result is recorded as that of this explainer; to record the influence first costs as much as a pass.
        measure = inspect.unwrap(Influence.__call__)
        return self.summarise(measure(method, model, data, seed=seed))

    def usual_place(self, model: Model) -> str:
        """Where to explain if the user names no place."""
        if not self.of_feature_maps:
            return find_embedding(model) if _reads_words(model) else "input"
        found = last_feature_map(model)
        if found is None:
            name = getattr(declaration_of(self), "name", type(self).__name__)
            raise InputError(f"{name} explains feature maps, and this network has none. Choose another --method.")
        return found

    def suit(self, model: Model, data: Data | torch.Tensor) -> Self:
        """The same explainer, with the settings that were left open chosen for this model and data like these."""
        return self

    def distribution(self) -> Distribution:
        """The points over which the gradient is averaged."""
        return Point()

    def summarise(self, found: Explained) -> Explained:
        """What the method makes of the influence."""
        return found


@declare("explainer", "integrated-gradients", access="weights", paper="Sundararajan2017; Leino2022, eq. 3.3")
class IntegratedGradients(Explainer):
    """The mean gradient on the line from a baseline, times the distance."""

    baseline: float | torch.Tensor | None = setting(
        "Where the line starts; else the lowest value of the inputs, or the mean row of a table.", default=None
    )
    steps: int = setting("Points on the line.", default=50, at_least=1)

    def suit(self, model: Model, data: Data | torch.Tensor) -> Self:
        if _reads_words(model):  # a word without meaning: no number in any direction
            return replace(self, baseline=0.0) if self.baseline is None else self
        usual = model.bounds[0] if model.bounds is not None else _inputs(data).mean(dim=0)
        return replace(self, baseline=usual) if self.baseline is None else self

    def distribution(self) -> Distribution:
        assert self.baseline is not None
        return Line(self.baseline, self.steps)


@declare("explainer", "conductance", access="weights", paper="Dhamdhere2019")
class Conductance(IntegratedGradients):
    """The part of the input's integrated gradients that flows through each unit."""

    def distribution(self) -> Distribution:
        assert self.baseline is not None
        return Path(self.baseline, self.steps)


@declare("explainer", "saliency", access="weights", paper="Simonyan2014")
class Saliency(Explainer):
    """The gradient at the point."""


@declare("explainer", "smooth-grad", access="weights", paper="Smilkov2017")
class SmoothGrad(Explainer):
    """The mean gradient under Gaussian noise."""

    sigma: float | torch.Tensor | None = setting(
        "The noise, in units of the input; else 0.15 of the inputs' range, or of each feature's spread.", default=None
    )
    steps: int = setting("Draws of the noise.", default=50, at_least=1)

    def suit(self, model: Model, data: Data | torch.Tensor) -> Self:
        bounds = model.bounds
        if _reads_words(model) and self.sigma is None:
            table = model.module.get_parameter(f"{find_embedding(model)}.weight")
            return replace(self, sigma=NOISE * float(table.detach().std()))
        usual = NOISE * (bounds[1] - bounds[0]) if bounds is not None else NOISE * spread(_inputs(data))
        return replace(self, sigma=usual) if self.sigma is None else self

    def distribution(self) -> Distribution:
        assert self.sigma is not None
        return Gaussian(self.sigma, self.steps)


@declare("explainer", "grad-cam", access="weights", paper="Selvaraju2017")
class GradCAM(Explainer):
    """Each channel's mean influence times its activation.

    The map that the paper shows is the positive part of the sum over channels, `found.heat().relu()`.
    """

    of_feature_maps: ClassVar[bool] = True

    def summarise(self, found: Explained) -> Explained:
        mean = _require_map(found).influence.flatten(2).mean(dim=2)
        shared = mean.reshape(*mean.shape, *[1] * (found.influence.ndim - 2)).expand_as(found.influence)
        return replace(
            found,
            influence=shared,
            attribution=shared * found.activation,
            distribution=f"{found.distribution}, the mean of a channel's positions (Grad-CAM)",
        )


@declare("explainer", "channel-influence", access="weights", paper="Leino2018")
class ChannelInfluence(Explainer):
    """How the quantity reacts when a whole channel rises: its influence summed over positions, `(n, channels)`."""

    of_feature_maps: ClassVar[bool] = True

    def summarise(self, found: Explained) -> Explained:
        return replace(
            found,
            influence=_require_map(found).influence.flatten(2).sum(dim=2),
            activation=found.activation.flatten(2).mean(dim=2),
            distribution=f"{found.distribution}, all positions of a channel",
        )


def _reads_words(model: Model) -> bool:
    return model.nest is not None and model.nest.tokens is not None


def _where_gradients_are(model: Model, distribution: Distribution) -> Distribution:
    """The distribution at the slice, where the model takes token ids: between two ids there is no text."""
    if not _reads_words(model) or isinstance(distribution, Point):
        return distribution
    if isinstance(distribution, Path):
        raise InputError(
            "Conductance follows a line at the input, and token ids have none between them. Use integrated-gradients, "
            "which takes the line at the embedding."
        )
    assert isinstance(distribution, Line | Gaussian)
    return replace(distribution, at="slice")


def spread(x: torch.Tensor) -> torch.Tensor:
    """The standard deviation of each feature of `x: (n, ...)`, 1 where there is only one example."""
    if len(x) < 2:
        return torch.ones_like(x[0])
    if isinstance(x, Stored) and not x.fits:
        return (mean_and_spread(x)[1] * math.sqrt(len(x) / (len(x) - 1))).to(x.dtype)
    return x.std(dim=0)


def _inputs(data: Data | torch.Tensor) -> torch.Tensor:
    return data.x if isinstance(data, Data) else data


def _require_map(found: Explained) -> Explained:
    if found.influence.ndim < 3:
        raise InputError(
            f"'{found.slice}' has units, not channels with positions: its value has shape "
            f"{tuple(found.influence.shape[1:])}. Choose a convolution or what follows it."
        )
    return found
