"""Figure 9.1: the bias amplification of the Bayes-optimal classifier, in closed form and by drawing examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from modelkeep.bias.gaussian import bayes_amplification, bayes_classifier
from modelkeep.core.method import declare
from modelkeep.core.results import Estimate
from modelkeep.papers.curves import PaperCurves
from modelkeep.papers.result import Claim, values
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.study.names import trial
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial

FEATURES = 4


@trial("leino2022/figure-9.1", formerly=("modelkeep.bias.studies.figure_9_1:amplify",))
def amplify(*, seed: int, prior: float, distance: float, n: int) -> dict[str, int]:
    """Classify `n` Gaussian examples as well as can be: how often it said 1 and was 0, and how often 0 and was 1."""
    random = np.random.default_rng([seed, round(1000 * prior), round(1000 * distance)])
    # Any variances and any direction will do: the theorem says that only the prior and the distance count.
    variance = random.uniform(0.5, 2.0, FEATURES)
    direction = random.standard_normal(FEATURES)
    apart = distance * direction / np.sqrt((direction**2 / variance).sum())
    weights, bias = bayes_classifier(prior, np.zeros(FEATURES), apart, variance)
    y = random.random(n) < prior
    x = y[:, None] * apart + random.standard_normal((n, FEATURES)) * np.sqrt(variance)
    said = x @ weights + bias > 0
    return {"false_1": int((said & ~y).sum()), "false_0": int((~said & y).sum()), "n": n}


def trials(size: Size, seed: int) -> Sequence[Trial]:
    """The prior from 1/2 to 0.975, for several distances."""
    priors = [round(0.5 + 0.025 * i, 3) for i in range(20)]
    n = {"small": 100_000, "paper": 1_000_000}[size]
    return [
        Trial.of(amplify, {"prior": prior, "distance": distance, "n": n}, seed)
        for distance, prior in product([0.25, 0.5, 1.0, 2.0, 3.0], priors)
    ]


def report(result: StudyResult) -> PaperCurves:
    """The drawn points on the curves of theorem 9.1."""
    priors = sorted({record.parameters["prior"] for record in result.records})
    series, paper = {}, {}
    for distance in sorted({record.parameters["distance"] for record in result.records}):
        found = [values(result.records, prior=prior, distance=distance) for prior in priors]
        series[f"D = {distance:g}"] = tuple(_excess(**value[0]) if value else None for value in found)
        paper[f"D = {distance:g}"] = tuple(bayes_amplification(prior, distance) for prior in priors)
    return PaperCurves(
        study=result.study,
        x_label="p*",
        y_label="bias amplification",
        x=tuple(priors),
        series=series,
        paper=paper,
        claims=(_agreement(series, paper), _saturation()),
        provenance=result.provenance,
    )


def _excess(false_1: int, false_0: int, n: int) -> Estimate:
    """The mean of F - y, which is 1, -1 or 0, with its normal interval."""
    value = (false_1 - false_0) / n
    half = 1.96 * math.sqrt(max((false_1 + false_0) / n - value**2, 0.0) / n)
    return Estimate(value, value - half, value + half, n)


def _agreement(series: dict[str, tuple[Estimate | None, ...]], paper: dict[str, tuple[float, ...]]) -> Claim:
    pairs = [
        (ours, theirs)
        for name in series
        for ours, theirs in zip(series[name], paper[name], strict=True)
        if ours is not None and ours.low < ours.high  # without a single error, there is no spread to judge by
    ]
    outside = sum(ours.excludes(theirs) for ours, theirs in pairs)
    return Claim(
        "B depends on p* and D only, as in theorem 9.1.",
        f"{outside} of {len(pairs)} drawn points lie outside their 95 % interval around the closed form.",
        # More than this would be outside by chance once in a thousand figures.
        bool(outside <= 0.05 * len(pairs) + 3.1 * math.sqrt(0.05 * 0.95 * len(pairs))) if pairs else None,
    )


def _saturation() -> Claim:
    said = 0.75 + bayes_amplification(0.75, 0.5)
    return Claim(
        "Where p* = 3/4 and D = 1/2, class 1 is predicted with probability close to one.",
        f"with probability {said:.3f}, by the theorem.",
        said > 0.95,
    )


FIGURE_9_1 = declare(
    "study",
    "bias-figure-9.1",
    paper="Leino2022, figure 9.1",
    does="the bias that even the best classifier amplifies, by prior and distance of the classes",
)(PaperStudy(trials, report))
