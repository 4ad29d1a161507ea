"""Is it as sure as it is right?"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.audit.cost import Cost
from modelkeep.audit.findings import Finding, Section, Severity
from modelkeep.core import plots
from modelkeep.core.data import Data
from modelkeep.core.examples import rows_at_once
from modelkeep.core.method import declare
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.report.measure import Measure, percent
from modelkeep.report.picture import Picture

TITLE = "Is it as sure as it is right?"
LEAD = (
    "A model that says 90 % should be right nine times in ten. The examples are sorted by how sure the model is and "
    "put into groups of equal size. The calibration error is the mean distance between confidence and accuracy."
)
BINS, FEWEST = 15, 10
"""At most so many groups, of at least so many examples each."""
MATTERS, LARGE, DOUBT = 0.05, 0.15, 0.1
"""An error beyond chance matters from the first and is large from the second; a wider interval says nothing good."""
_RESAMPLES = 1000
Array = NDArray[Any]


@declare("check", "calibration", access="scores", paper="Naeini2015; Guo2017; Nixon2019")
class CheckCalibration:
    """The expected calibration error in groups of equal size, and whether the model is too sure or not sure enough."""

    def cost(self, model: Model, data: Data) -> Cost:
        """One pass of each example; the resamples take a while."""
        return Cost(len(data), seconds=1e-7 * _RESAMPLES * len(data))

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Section:
        """Measure on all data."""
        model.require_fit(data)
        parts = [
            (probs.amax(dim=1).cpu(), probs.argmax(dim=1).cpu() == y)
            for x, y in data.batches(rows_at_once(data.input_shape))
            for probs in [model.probs(x)]
        ]
        sure, right = (torch.cat(each).double().numpy() for each in zip(*parts, strict=True))
        # By confidence; equally sure ones in random order, as data may come class by class.
        order = np.lexsort((np.random.default_rng(seed).random(len(sure)), sure))
        sure, right = sure[order], right[order]
        error, by_chance = estimate_error(sure, right, seed)
        tilt = Estimate.bootstrap(sure - right, seed)
        return Section(
            TITLE,
            LEAD,
            (
                Measure("calibration error: how far confidence is from accuracy", error),
                Measure("mean confidence less accuracy (above 0: too sure)", tilt),
            ),
            (judge(error, by_chance, tilt),),
            (_picture(sure, right),),
        )


def bin_edges(n: int) -> list[int]:
    """Where the groups begin and end among `n` examples in the order of their confidence."""
    bins = max(1, min(BINS, n // FEWEST))
    return [round(n * i / bins) for i in range(bins + 1)]


def calibration_error(sure: Array, right: Array) -> float:
    """The error of examples in the order of their confidence: `sure: (n,)` rises, `right: (n,)` is 1 where it is right.

    >>> calibration_error(np.full(10, 0.75), np.repeat([0.0, 1.0], 5))  # half are right, at 75 %
    0.25
    """
    return float(np.abs(np.add.reduceat(sure - right, bin_edges(len(sure))[:-1])).sum() / len(sure))


def estimate_error(sure: Array, right: Array, seed: int) -> tuple[Estimate, float]:
    """The error with its interval, and the most that chance alone gives such confidences (19 of 20 times).

    The error is never below 0, so chance alone puts it above, and resampling adds as much again: that is taken off the
    percentiles. Examples are as in `calibration_error`.
    """
    random = np.random.default_rng(seed)
    n, value = len(sure), calibration_error(sure, right)
    drawn, chance = [], []
    for _ in range(_RESAMPLES):
        index = np.sort(random.integers(0, n, n))
        drawn.append(calibration_error(sure[index], right[index]))
        chance.append(calibration_error(sure, (random.random(n) < sure).astype(float)))
    low, high = np.quantile(drawn, [0.025, 0.975]) - (np.mean(drawn) - value)
    return Estimate(value, float(np.clip(low, 0, value)), float(max(value, high)), n), float(np.quantile(chance, 0.95))


def judge(error: Estimate, by_chance: float, tilt: Estimate) -> Finding:
    """What the error says; where chance explains it nothing is claimed."""
    measured = (
        f"Confidence is {percent(error.value)} away from accuracy ({percent(error.low)} to {percent(error.high)}, "
        f"n = {error.n}); a perfectly calibrated model would be below {percent(by_chance)} in 19 of 20 samples. "
        f"On average it is {100 * tilt.value:+.1f} points surer than right ({100 * tilt.low:+.1f} to "
        f"{100 * tilt.high:+.1f})."
    )
    value = Measure("calibration error", error)
    if error.value > by_chance and error.low > 0 and error.value >= MATTERS:
        severity: Severity = "medium" if error.low >= LARGE else "low"
        if tilt.low > 0:
            name, title, meaning = "overconfident", "It is surer than it is right", "is right less often than it says."
        elif tilt.high < 0:
            name, title, meaning = (
                "underconfident",
                "It is less sure than it is right",
                "is right more often than that.",
            )
        else:
            name, title = "miscalibrated", "Its confidence is not how often it is right"
            meaning = "is right more often or less often than it says, depending on how sure it is."
        return Finding(
            id=f"calibration.{name}",
            severity=severity,
            title=title,
            measured=measured,
            meaning=f"Where the model gives a probability, it {meaning} A threshold on it does not mean what it says.",
            remedy="Divide the logits by a temperature that is fitted on held-out data (temperature scaling): the "
            "labels stay as they are.",
            weight=error.value,
            value=value,
            access="scores",
            queries=error.n,
        )
    if error.high > DOUBT:
        return Finding(
            id="calibration.unclear",
            severity="unclear",
            title="Too few examples to say whether its confidence can be trusted",
            measured=measured,
            meaning=f"The error may be as large as {percent(error.high)}, or chance alone.",
            remedy="Give more examples.",
            value=value,
            access="scores",
            queries=error.n,
        )
    return Finding(
        id="calibration.as-sure-as-right",
        severity="good",
        title="It is about as sure as it is right",
        measured=measured,
        meaning="On data like these its confidence is close to how often it is right. On other data it may not be.",
        remedy="Nothing.",
        value=value,
        access="scores",
        queries=error.n,
    )


def _picture(sure: Array, right: Array) -> Picture:
    groups = [slice(*edges) for edges in pairwise(bin_edges(len(sure)))]
    x = [float(sure[group].mean()) for group in groups]
    rates = [Estimate.rate(int(right[group].sum()), len(right[group])) for group in groups]
    ideal = [Estimate(value, value, value, len(sure)) for value in x]
    figure = plots.curve(
        x,
        {"how often it is right": rates, "as sure as right": ideal},
        x_label="how sure it is (mean of the group)",
        y_label="share that is right",
    )
    return Picture.of(
        figure,
        f"Accuracy against confidence in {len(groups)} groups of equal size",
        "How often it is right among examples of about equal confidence. Below the straight line it is too sure. The "
        "band is the 95 % interval.",
    )
