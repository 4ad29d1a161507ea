"""Figures 9.3a–c: logistic regression by SGD is biased towards the class with more weak features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from modelkeep.core.method import declare
from modelkeep.papers.curves import Curve, PaperCurves, curves
from modelkeep.papers.leino2022.synthetic_data import EPOCHS, draw, exact, means, sgd
from modelkeep.papers.result import Claim, above
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.study.names import trial
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial

_RUNS = {"small": 25, "paper": 100}
_FOR_EACH_N = (100, 500, 1000)


@trial("leino2022/figure-9.3", formerly=("modelkeep.bias.studies.figure_9_3:train",))
def train(
    *, seed: int, n: int, weak: int, variance: float, epochs: int | None, centred: bool, runs: int
) -> dict[str, list[float]]:
    """Per run: the exact bias and accuracy, and what became of the weights.

    `overestimate` is by how much the mean weak weight exceeds the Bayes-optimal one, `strong` the mean strong weight
    in its right direction, and `intercept` the share that was learned of the intercept that the weights need: with
    equal priors, that which puts the middle between the class means on the boundary. With `centred`, the middle is
    moved to 0 before training, so that they need none.
    """
    found: dict[str, list[float]] = {
        "bias": [],
        "accuracy": [],
        "overestimate": [],
        "strong": [],
        "intercept": [],
        "epochs": [],
    }
    middle = means(weak).mean(axis=0)
    for run in range(runs):
        random = np.random.default_rng([seed, run, n, weak])  # the same noise for all variances and epochs
        x, y = draw(n, weak, variance, random)
        shift = middle if centred else np.zeros_like(middle)
        fitted = sgd(x - shift, y, epochs, seed=int(random.integers(2**31)))
        weights = fitted.coef_[0]
        intercept = float(fitted.intercept_[0] - weights @ shift)
        bias, accuracy = exact(weights, intercept, variance)
        found["bias"].append(bias)
        found["accuracy"].append(accuracy)
        # The means differ by 1, so the optimal weight is 1 / variance (equation 9.2).
        found["overestimate"].append(float(weights[2:].mean() - 1 / variance))
        found["epochs"].append(int(fitted.n_iter_))
        found["strong"].append(float(weights[0] - weights[1]) / 2)
        found["intercept"].append(float(intercept / -(weights @ middle)))
    return found


def _trials(size: Size, seed: int, points: Sequence[tuple[int, int, float, int | None, bool]]) -> Sequence[Trial]:
    names = ("n", "weak", "variance", "epochs", "centred")
    return [Trial.of(train, {**dict(zip(names, point, strict=True)), "runs": _RUNS[size]}, seed) for point in points]


def _trials_a(size: Size, seed: int) -> Sequence[Trial]:
    """By number of weak features; also as the other reading of σ_w = 10 has it, trained to the end, and centred."""
    counts = [4, 16, 64, 256, 1024] if size == "small" else [2**i for i in range(1, 12)]
    settings = [
        *((n, 10.0, EPOCHS, False) for n in _FOR_EACH_N),
        (1000, 100.0, EPOCHS, False),
        (100, 10.0, None, False),
        (100, 10.0, EPOCHS, True),
    ]
    return _trials(size, seed, [(n, weak, v, epochs, centred) for n, v, epochs, centred in settings for weak in counts])


def _trials_b(size: Size, seed: int) -> Sequence[Trial]:
    """By the variance of 256 weak features."""
    spread = [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0]
    if size == "paper":
        spread = [round(10 ** (i / 6), 3) for i in range(19)]
    return _trials(size, seed, [(n, 256, v, EPOCHS, False) for n in _FOR_EACH_N for v in spread])


def _trials_c(size: Size, seed: int) -> Sequence[Trial]:
    """By number of training examples."""
    ns = [100, 250, 500, 1000, 2500, 5000] if size == "small" else [100, 250, 500, 1000, 2500, 5000, 10_000, 20_000]
    return _trials(size, seed, [(n, 256, v, EPOCHS, False) for v in (2.0, 5.0, 10.0) for n in ns])


def report_a(result: StudyResult) -> PaperCurves:
    """The bias over the number of weak features, for each number of training examples."""
    x, series = curves(result, x="weak", y="bias", name=_setting)
    few, many = series.get("N = 100", (None,)), series.get("N = 1000", (None,))
    claims = (
        above("More weak features towards class 1, more bias.", "N = 100, most and fewest", few[-1], few[0]),
        above(
            "The effect diminishes as the training set grows.", f"{x[-1]} of them, N = 100 and 1000", few[-1], many[-1]
        ),
    )
    labels = ("weak features", "bias amplification")
    return _figure(result, labels, x, series, claims)


def report_b(result: StudyResult) -> PaperCurves:
    """The bias over the variance of the weak features."""
    x, series = curves(result, x="variance", y="bias", name=lambda p: f"N = {p['n']}")
    few, many = series.get("N = 100", (None,)), series.get("N = 1000", (None,))
    top, later = _highest(few), _highest(many)
    claims = (
        above("Bias decreases as σ_w approaches σ_s = 1.", f"N = 100, at {x[top]:g} and 1", few[top], few[0]),
        above("Very weak features do less harm.", f"N = 100, at {x[top]:g} and {x[-1]:g}", few[top], few[-1]),
        Claim(
            "The more training data, the more variance it takes to cause bias.",
            f"it is largest at {x[top]:g} for N = 100 and at {x[later]:g} for N = 1000.",
            None if None in (few[0], many[0]) else later > top,
        ),
    )
    labels = ("variance of the weak features", "bias amplification")
    return _figure(result, labels, x, series, claims)


def report_c(result: StudyResult) -> PaperCurves:
    """How far the weights of the weak features exceed the optimal ones."""
    x, series = curves(result, x="n", y="overestimate", name=lambda p: f"variance {p['variance']:g}")
    weaker, stronger = series.get("variance 10", (None,)), series.get("variance 2", (None,))
    points = [point for curve in series.values() for point in curve if point]
    claims = (
        Claim(
            "The weights of weak features are consistently overestimated.",
            f"{sum(p.low > 0 for p in points)} of {len(points)} points lie above 0.{_relative(result)}",
            all(p.low > 0 for p in points) if points else None,
        ),
        above("The weaker the features, the more.", f"N = {x[0]}, variance 10 and 2", weaker[0], stronger[0]),
        above("The less training data, the more.", f"variance 10, N = {x[0]} and {x[-1]}", weaker[0], weaker[-1]),
    )
    labels = ("training examples", "weak weight − optimal weight")
    return _figure(result, labels, x, series, claims)


def _relative(result: StudyResult) -> str:
    """How large the weak weights are beside the strong ones; the scale of all weights changes no prediction."""
    found = []
    for record in result.records:
        if record.state == "done" and record.parameters["variance"] == 10:
            weak = np.mean(record.value["overestimate"]) + 1 / 10
            found.append(f"{10 * weak / np.mean(record.value['strong']):.1f} (N = {record.parameters['n']})")
    return (
        f" Relative to the strong weights, at variance 10, times what is optimal: {', '.join(found)}." if found else ""
    )


def _setting(parameters: dict[str, Any]) -> str:
    reading = "" if parameters["variance"] == 10 else f", variance {parameters['variance']:g}"
    training = ", to convergence" if parameters["epochs"] is None else ", centred" if parameters["centred"] else ""
    return f"N = {parameters['n']}{reading}{training}"


def _highest(curve: Curve) -> int:
    return max(range(len(curve)), key=lambda i: point.value if (point := curve[i]) else -1.0)


def _figure(
    result: StudyResult,
    labels: tuple[str, str],
    x: tuple[float, ...],
    series: Mapping[str, Curve],
    claims: tuple[Claim, ...],
) -> PaperCurves:
    return PaperCurves(
        study=result.study,
        x_label=labels[0],
        y_label=labels[1],
        x=x,
        series=dict(series),
        paper={},  # the thesis prints no numbers, only the picture
        claims=claims,
        log_x=True,
        provenance=result.provenance,
    )


_FIGURE_9_3A = declare(
    "study",
    "bias-figure-9.3a",
    paper="Leino2022, figure 9.3a",
    does="the bias of logistic regression by SGD, by number of weak features",
)(PaperStudy(_trials_a, report_a))
_FIGURE_9_3B = declare(
    "study",
    "bias-figure-9.3b",
    paper="Leino2022, figure 9.3b",
    does="the bias of logistic regression by SGD, by variance of the weak features",
)(PaperStudy(_trials_b, report_b))
_FIGURE_9_3C = declare(
    "study",
    "bias-figure-9.3c",
    paper="Leino2022, figure 9.3c",
    does="how far SGD overestimates the weights of weak features, by number of examples",
)(PaperStudy(_trials_c, report_c))
