"""Weight leakage: training examples that can be seen in the weights of the first dense layer."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

import torch
from torch import nn

from modelkeep.core import plots, progress
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, ModelError
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, Tensor, measured
from modelkeep.core.similarity import nearest

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_CHUNK = 64
"""Columns between two signs of progress."""


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightLeak(Result, kind="weight-leak"):
    """The weight columns that look most like training examples, best first.

    `similarity: (k,)` is the SSIM of each with its nearest training example, `elsewhere: (k,)` with its nearest of
    equally many examples that were not trained on. `nearer` is how often the training example is the nearer one, of
    the columns that look most like any example of the two kinds: half of the time where nothing leaks.
    """

    layer: str
    bounds: tuple[float, float]
    nearer: Estimate
    columns: Tensor = field(repr=False)
    examples: Tensor = field(repr=False)
    index: Tensor = field(repr=False)
    similarity: Tensor = field(repr=False)
    elsewhere: Tensor = field(repr=False)

    def rows(self) -> list[tuple[str, str]]:
        leaks = "more often than chance" if self.nearer.low > 0.5 else "no more often than chance"
        return [
            ("layer", f"{self.layer}, {len(self.similarity)} columns shown"),
            ("most similar", f"SSIM {float(self.similarity[0]):.3f} with training example {int(self.index[0])}"),
            ("nearer to training than to other examples", f"{self.nearer}: {leaks}"),
        ]

    def draw(self) -> Figure:
        """Pairs: the weight column, and the training example that it is most like."""
        shown = min(len(self.similarity), 12)
        pairs = torch.stack([self.columns[:shown], self.examples[:shown]], dim=1).flatten(0, 1)
        titles = [t for value in self.similarity[:shown] for t in (f"SSIM {float(value):.2f}", "example")]
        return plots.image_grid(pairs, titles, columns=8, bounds=self.bounds)


@declare("measurement", "weight-leakage", access="weights", paper="Leino2022, section 8.6.3")
class FindWeightLeak:
    """Training examples that stand in the weights: robust networks may compute distances to them (eq. 8.14).

    Each column of the first dense layer is drawn as a picture, also with its sign turned, and held against all
    training examples. Examples that were not trained on tell what similarity means nothing.
    """

    most: int = setting("Columns that are shown.", default=64, at_least=1)

    def __call__(self, model: Model, data: Data, *, seed: int = 0, held_out: Data | None = None) -> WeightLeak:
        """Compare with the training data, and with as many examples of `held_out`, drawn by the seed."""
        model.require_fit(data)
        if len(model.input_shape) != 3:
            raise InputError(f"Weight columns are compared as pictures. The inputs have shape {model.input_shape}.")
        if held_out is None:
            raise InputError("Without examples that were not trained on, no similarity means anything: held_out=….")
        model.require_fit(held_out)
        name, weight = _first_dense(model)
        low, high = model.bounds if model.bounds is not None else (float(data.x.min()), float(data.x.max()))
        count = min(len(data), len(held_out))
        members, others = data.sample(count, seed), held_out.sample(count, seed)
        of_model, of_data = model.fingerprint(), data.fingerprint()
        with measured(seed, of_model, of_data) as provenance, torch.no_grad():
            pictures = _as_pictures(weight, model.input_shape, low, high)
            inside, outside = _best(pictures, members.x, high - low), _best(pictures, others.x, high - low)
            order = inside.similarity.argsort(descending=True, stable=True)[: self.most]
            # Columns that were chosen for their likeness to training examples would be nearer to these by chance alone.
            judged = torch.maximum(inside.similarity, outside.similarity).argsort(descending=True, stable=True)
            won = int((inside.similarity > outside.similarity)[judged[: self.most]].sum())
            return WeightLeak(
                provenance=provenance(),
                layer=name,
                bounds=(low, high),
                nearer=Estimate.rate(won, len(order)),
                columns=inside.pictures[order].cpu(),
                examples=members.x[inside.index[order]],
                index=inside.index[order],
                similarity=inside.similarity[order],
                elsewhere=outside.similarity[order],
            )


@dataclass(frozen=True)
class _Best:
    """For each weight column: the better of its two signs, the nearest example and the SSIM."""

    pictures: torch.Tensor
    index: torch.Tensor
    similarity: torch.Tensor


def _best(pictures: torch.Tensor, among: torch.Tensor, span: float) -> _Best:
    """`pictures: (2, k, c, h, w)`, the columns and their negatives."""
    with progress.task("Weight columns", pictures.shape[0] * pictures.shape[1]) as task:
        found = []
        for some in torch.split(pictures.flatten(0, 1).cpu(), _CHUNK):
            found.append(nearest(some, among, span))
            task.advance(len(some))
    index, values = (torch.cat(each).view(2, -1) for each in zip(*found, strict=True))
    sign = values.argmax(dim=0)
    column = torch.arange(values.shape[1])
    return _Best(pictures.cpu()[sign, column], index[sign, column], values[sign, column])


def find_first_dense(model: Model) -> tuple[str, nn.Linear] | None:
    """The dense layer that takes the whole input as it is, by its name; None where there is none.

    A layer that takes as many numbers from other layers has no columns that are pictures.
    """
    size = prod(model.input_shape)
    for name, layer in model.module.named_modules():
        if isinstance(layer, nn.Linear) and layer.in_features == size and _takes_input(model, layer):
            return name or "(the module)", layer
    return None


def _takes_input(model: Model, layer: nn.Linear) -> bool:
    """Whether the layer is given the input of the module itself."""
    seen: list[torch.Tensor] = []
    handle = layer.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach()))
    try:
        probe = model.probe()
        model.logits(probe)
    finally:
        handle.remove()
    fed = model.preprocess(probe).flatten(1)
    return any(each.shape == fed.shape and torch.equal(each.cpu(), fed.cpu()) for each in seen)


def _first_dense(model: Model) -> tuple[str, torch.Tensor]:
    found = find_first_dense(model)
    if found is None:
        size = prod(model.input_shape)
        raise ModelError(f"No dense layer takes the {size} values of an input, so no weight column is a picture.")
    return found[0], found[1].weight


def _as_pictures(weight: torch.Tensor, shape: tuple[int, ...], low: float, high: float) -> torch.Tensor:
    """Each column and its negative, stretched over the range of an input: `(2, k, *shape)`."""
    columns = torch.stack([weight, -weight]).detach()
    least, most = columns.amin(dim=2, keepdim=True), columns.amax(dim=2, keepdim=True)
    stretched = low + (high - low) * (columns - least) / (most - least).clamp_min(1e-12)
    return stretched.view(2, len(weight), *shape)
