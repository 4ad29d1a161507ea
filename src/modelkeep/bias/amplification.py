"""Does the model predict some classes more often than they occur? (Leino2022, definition 9.1)"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.bias.gaussian import (
    bayes_amplification,
    bayes_classifier,
    from_first,
    pooled_variance,
    unbiased_squared_distance,
)
from modelkeep.bias.head import features_at
from modelkeep.bias.resampling import RESAMPLES, draw_counts, percentiles
from modelkeep.core import plots
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[Any]
FEWEST = 5  # a distance between classes needs as many examples


@dataclass(frozen=True)
class Explanation:
    """How much of a binary model's amplification theorem 9.1 explains, if the features at the slice were Gaussian.

    `prior` is p* of the majority and `distance` the Mahalanobis distance D between the classes, by variances that are
    pooled and taken as independent, without the part that chance adds. `unavoidable` is what the best classifier of
    such Gaussian data would show, and `avoidable` what the model shows beyond it: what its use of features explains.
    `check` says how far to trust that: the amplification, measured on the data, of the classifier that would be best if
    they were Gaussian. Where its interval does not hold `unavoidable`, they are not.
    """

    slice: str
    prior: Estimate
    distance: Estimate
    unavoidable: Estimate
    avoidable: Estimate
    check: Estimate


@dataclass(frozen=True, kw_only=True, eq=False)
class Amplification(Result, kind="amplification"):
    """The shares of predictions against the shares of labels, in the order of `classes`.

    `amplification` is definition 9.1, Pr[F(x) = c] - Pr[y = c], for the majority class c: the largest one in the data,
    the last of several such. `per_class` is the same for every class. `distance` is half the sum of their absolute
    values: the total variation distance between predictions and labels, which for two classes is the absolute value of
    definition 9.1.

    A distance is never below 0, so chance alone puts it above: on average by `by_chance` where each error is as likely
    as its opposite. `p_value` tests for that (McNemar's exact test where there are two classes, and by random swaps of
    prediction and label where there are more), and the interval of `distance` holds 0 unless the test rejects it.
    """

    classes: tuple[str, ...]
    majority: str
    accuracy: Estimate
    amplification: Estimate
    distance: Estimate
    by_chance: float
    p_value: float
    labelled: tuple[Estimate, ...] = field(repr=False)
    predicted: tuple[Estimate, ...] = field(repr=False)
    per_class: tuple[Estimate, ...] = field(repr=False)
    explanation: Explanation | None

    def rows(self) -> list[tuple[str, str]]:
        rows = [
            ("majority class", f"{self.majority}, share {self.labelled[self.classes.index(self.majority)]}"),
            ("accuracy", str(self.accuracy)),
            ("amplification", str(self.amplification)),
            ("distance of the shares", f"{self.distance}; {self.by_chance:.3f} by chance, p = {self.p_value:.2g}"),
        ]
        if len(self.classes) > 2:
            strongest = sorted(zip(self.per_class, self.classes, strict=True), key=lambda pair: -abs(pair[0].value))
            rows += [(f"towards '{name}'", str(estimate)) for estimate, name in strongest[:5]]
        if self.explanation is not None:
            e = self.explanation
            doubt = "no" if e.check.excludes(e.unavoidable.value) else "maybe"
            rows += [
                ("Gaussian classes at", f"{e.slice}: p* {e.prior.value:.3f}, distance D {e.distance}"),
                ("unavoidable, if Gaussian", str(e.unavoidable)),
                ("avoidable", str(e.avoidable)),
                ("are they Gaussian?", f"{doubt}: their best classifier shows {e.check}"),
            ]
        return rows

    def draw(self) -> Figure:
        """For each class (of many, the ten that differ most) the share of its labels and of its predictions."""
        order = sorted(range(len(self.classes)), key=lambda c: -abs(self.per_class[c].value))[:10]
        shares = {}
        for c in sorted(order):
            shares[f"{self.classes[c]}: labels"] = self.labelled[c]
            shares[f"{self.classes[c]}: predictions"] = self.predicted[c]
        return plots.bars(
            shares, title="What occurs and what is predicted", x_label="share of the examples", colours=plots.PAIR
        )


@declare("measurement", "amplification", access="weights", paper="Leino2022, definition 9.1")
class MeasureAmplification:
    """Bias amplification: by how much each class is predicted more often than it occurs.

    For two classes it also says how much of it could be avoided (theorem 9.1), if there are five examples or more.
    """

    slice: str | None = setting(
        "The features for theorem 9.1, by a name from `model.slices()`; else what the last linear layer sees, or the "
        "input.",
        default=None,
    )

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Amplification:
        """Measure on examples that the model was not trained on, of two classes or more."""
        with measured(seed, model.fingerprint(), data.fingerprint()) as provenance, model.frozen(seed):
            place, features, logits = features_at(model, data, self.slice)
            require_two_classes(data)
            labels, predicted = data.y.numpy(), logits.argmax(dim=1).cpu().numpy()
            counts = np.bincount(labels, minlength=len(data.classes))
            majority = largest_class(data)
            per_class, distance, by_chance, p_value = _compare(labels, predicted, len(data.classes), seed)
            explanation = None
            if len(data.classes) == 2 and len(data) >= FEWEST:
                explanation = _explain(place, features, labels == majority, predicted == majority, seed)
            return Amplification(
                provenance=provenance(),
                classes=data.classes,
                majority=data.classes[majority],
                accuracy=Estimate.rate(int((labels == predicted).sum()), len(labels)),
                amplification=per_class[majority],
                distance=distance,
                by_chance=by_chance,
                p_value=p_value,
                labelled=tuple(Estimate.rate(int(count), len(labels)) for count in counts),
                predicted=tuple(Estimate.rate(int((predicted == c).sum()), len(labels)) for c in range(len(counts))),
                per_class=tuple(per_class),
                explanation=explanation,
            )


def require_two_classes(data: Data) -> None:
    """Refuse data of a single class, on which nothing can be amplified."""
    if (data.y == data.y[0]).all():
        raise InputError(
            f"Bias amplification needs examples of two or more classes. All {len(data)} of '{data.name}' are "
            f"'{data.classes[int(data.y[0])]}'."
        )


def largest_class(data: Data) -> int:
    """The label of the majority, which Leino2022 calls class 1; the last of several that are equally large."""
    counts = data.y.bincount(minlength=len(data.classes))
    return len(counts) - 1 - int(counts.flip(0).argmax())


def _compare(labels: Array, predicted: Array, classes: int, seed: int) -> tuple[list[Estimate], Estimate, float, float]:
    """The excess of each class, the total variation distance, its mean where errors have no direction, its p-value."""
    from scipy.sparse import csr_array
    from scipy.special import bdtr

    n = len(labels)
    # All that matters is how often each label goes with each prediction, so that is what is drawn again.
    (label, prediction), counts = np.unique(np.stack([labels, predicted]), axis=1, return_counts=True)
    rows, ones = np.arange(len(counts)), np.ones(len(counts))
    shape = (len(counts), classes)
    adds = csr_array((ones, (rows, prediction)), shape=shape) - csr_array((ones, (rows, label)), shape=shape)
    random = np.random.default_rng(seed)
    resampled, swapped = [], []
    chunk = max(1, int(1e7 // len(counts)))
    for start in range(0, RESAMPLES, chunk):
        some = min(chunk, RESAMPLES - start)
        resampled.append(random.multinomial(n, counts / n, some) @ adds / n)
        # Where errors have no direction, each may as well be the other way round: prediction and label swapped.
        swaps = 2.0 * random.binomial(counts, 0.5, (some, len(counts))) - counts
        swapped.append(_total_variation(swaps @ adds / n))
    excess, repeated, by_chance = counts @ adds / n, np.concatenate(resampled), np.concatenate(swapped)
    value = float(_total_variation(excess))
    if classes == 2:
        up, down = int((predicted > labels).sum()), int((predicted < labels).sum())
        p_value = min(1.0, 2 * float(bdtr(min(up, down), up + down, 0.5)))  # McNemar's exact test
    else:
        p_value = float((1 + (by_chance >= value - 1e-12).sum()) / (1 + RESAMPLES))
    distance = percentiles(value, _total_variation(repeated), n)
    if p_value > 1 - distance.level:
        distance = replace(distance, low=0.0)
    per_class = [percentiles(float(excess[c]), repeated[:, c], n) for c in range(classes)]
    return per_class, distance, float(by_chance.mean()), p_value


def _total_variation(excess: Array) -> Array:
    return np.asarray(np.abs(excess).sum(axis=-1) / 2)


def _explain(place: str, features: torch.Tensor, ones: Array, predicted: Array, seed: int) -> Explanation:
    """Split the amplification towards `ones` by theorem 9.1. Variances are held fixed in the bootstrap."""
    z = from_first(features.double().cpu().numpy())
    n, n1 = len(z), int(ones.sum())
    n0 = n - n1
    variance = pooled_variance(z[~ones], z[ones])
    mean0, mean1 = z[~ones].mean(axis=0), z[ones].mean(axis=0)
    squared = unbiased_squared_distance(mean1 - mean0, variance, n0, n1)
    prior, distance, excess = n1 / n, squared**0.5, predicted.astype(float) - ones
    unavoidable = bayes_amplification(prior, distance)
    weights, bias = bayes_classifier(prior, mean0, mean1, variance)
    check = Estimate.bootstrap((z @ weights + bias > 0).astype(float) - ones, seed)

    noisy = variance > 0
    z = (z[:, noisy] - z[:, noisy].mean(axis=0)) / np.sqrt(variance[noisy])
    chance = int(noisy.sum()) * (1 / n0 + 1 / n1)
    drawn = []
    for counts in draw_counts(n, z.shape[1], seed):
        some1, some0 = counts[:, ones].sum(axis=1), counts[:, ~ones].sum(axis=1)
        counts, some1, some0 = (part[(some1 > 0) & (some0 > 0)] for part in (counts, some1, some0))
        gap = counts[:, ones] @ z[ones] / some1[:, None] - counts[:, ~ones] @ z[~ones] / some0[:, None]
        # Chance adds to D² twice: when the data were drawn, and when they were resampled.
        squares = np.maximum((n - 4) / (n - 2) * np.square(gap).sum(axis=1) - 2 * chance, 0.0)
        drawn.append(np.stack([some1 / n, np.sqrt(squares), counts @ excess / n]))
    priors, distances, excesses = np.concatenate(drawn, axis=1)
    if np.isinf(distance):  # some feature tells the classes apart without any noise
        distances = np.full_like(distances, np.inf)
    limits = bayes_amplification(priors, distances)
    return Explanation(
        slice=place,
        prior=Estimate.rate(n1, n),
        distance=percentiles(distance, distances, n),
        unavoidable=percentiles(unavoidable, limits, n),
        avoidable=percentiles(float(excess.mean()) - unavoidable, excesses - limits, n),
        check=check,
    )
