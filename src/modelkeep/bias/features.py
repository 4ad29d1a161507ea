"""Towards which class are the features of a network oriented, and how evenly? (Leino2022, section 9.2)"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.bias.amplification import largest_class, require_two_classes
from modelkeep.bias.gaussian import from_first
from modelkeep.bias.head import features_at, find_head
from modelkeep.bias.resampling import draw_counts, percentiles
from modelkeep.core import plots
from modelkeep.core.data import Data
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, Tensor, measured
from modelkeep.explain import AgainstAll, Influence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Asymmetry(Result, kind="asymmetry"):
    """Of the features at a slice, the share that is oriented towards each class rather than away from it.

    `on_data` goes by the data: the sign of the feature's mean in the class minus that in all others. `by_influence`
    goes by the model: the sign of the feature's mean influence on the class's logit minus the mean of the others'. An
    even share is 0.5; features of no orientation (dead units, constant pixels) do not count. `majority` is the class of
    the column "asymm." in table 9.6 of Leino2022. Per feature: `orientation` (classes, d), -1, 0 or 1; `influence`
    (classes, d).
    """

    slice: str
    classes: tuple[str, ...]
    majority: str
    on_data: tuple[Estimate, ...]
    by_influence: tuple[Estimate, ...]
    orientation: Tensor = field(repr=False)
    influence: Tensor = field(repr=False)

    def rows(self) -> list[tuple[str, str]]:
        rows = [("features at", f"{self.slice}: {self.orientation.shape[1]}"), ("majority class", self.majority)]
        # With two classes, what is not towards the one is towards the other.
        shown = self.classes if len(self.classes) > 2 else (self.majority,)
        for name in shown:
            c = self.classes.index(name)
            rows += [
                (f"towards '{name}' on the data", str(self.on_data[c])),
                (f"towards '{name}' by influence", str(self.by_influence[c])),
            ]
        return rows

    def draw(self) -> Figure:
        """The share of features towards each class, on the data."""
        shares = dict(zip(self.classes, self.on_data, strict=True))
        return plots.bars(shares, title=f"Features at {self.slice}", x_label="share that is oriented towards the class")


@declare("measurement", "asymmetry", access="weights", paper="Leino2022, section 9.2")
class MeasureAsymmetry:
    """How unevenly the features at a slice are oriented towards the classes, on the data and by the model's influence.

    Every unit of the slice is a feature.
    """

    slice: str | None = setting(
        "A name from `model.slices()`; else what the last linear layer sees, or the input.", default=None
    )

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Asymmetry:
        """Measure on examples of two classes or more. The seed is for the bootstrap over them."""
        with measured(seed, model.fingerprint(), data.fingerprint()) as provenance, model.frozen(seed):
            place, features, _ = features_at(model, data, self.slice)
            require_two_classes(data)
            z, labels = from_first(features.double().cpu().numpy()), data.y.numpy()
            gaps, influences, on_data, by_influence = [], [], [], []
            for c, name in enumerate(data.classes):
                member, each = labels == c, _influences(model, data, name, self.slice, place, seed)
                gaps.append(_gap(z, member, np.ones((1, len(z))))[0])
                influences.append(each.mean(axis=0))
                on_data.append(
                    _share(gaps[-1], (_gap(z, member, some) for some in draw_counts(len(z), z.shape[1], seed)), len(z))
                )
                by_influence.append(
                    _share(influences[-1], (some @ each for some in draw_counts(len(z), z.shape[1], seed)), len(z))
                )
            return Asymmetry(
                provenance=provenance(),
                slice=place,
                classes=data.classes,
                majority=data.classes[largest_class(data)],
                on_data=tuple(on_data),
                by_influence=tuple(by_influence),
                orientation=torch.from_numpy(np.sign(np.stack(gaps))).to(torch.int8),
                influence=torch.from_numpy(np.stack(influences)),
            )


def _influences(model: Model, data: Data, name: str, slice: str | None, place: str, seed: int) -> Array:
    """The influence `(n, d)` of the features on the class's logit against the mean of the others."""
    head = find_head(model) if slice is None else None
    if head is None:
        explained = Influence(slice=place, quantity=AgainstAll(name))(model, data, seed=seed)
        return np.asarray(explained.influence.flatten(1).double())
    # The gradient of a linear classifier is the same everywhere.
    c, weight = model.class_index(name), head.weight.double().cpu().numpy()
    same = weight[c] - np.delete(weight, c, axis=0).mean(axis=0)
    return np.broadcast_to(same, (len(data), len(same)))


def _gap(z: Array, member: Array, counts: Array) -> Array:
    """The mean in the class minus that in the others, `(r, d)` for r resamples; 0 where either is empty."""
    inside, outside = counts[:, member], counts[:, ~member]
    gap: Array = inside @ z[member] / np.maximum(inside.sum(axis=1), 1)[:, None]
    gap -= outside @ z[~member] / np.maximum(outside.sum(axis=1), 1)[:, None]
    gap[(inside.sum(axis=1) == 0) | (outside.sum(axis=1) == 0)] = 0
    return gap


def _share(values: Array, resampled: Iterable[Array], n: int) -> Estimate:
    """The share of positive ones among those `values` that are not 0, with its interval."""

    def share(values: Array) -> Array:
        positive, oriented = (values > 0).sum(axis=-1), (values != 0).sum(axis=-1)
        return np.where(oriented > 0, positive / np.maximum(oriented, 1), 0.5)

    return percentiles(float(share(values)), np.concatenate([share(some) for some in resampled]), n)
