"""Figure 9.4: the same data, other learning rules. It is SGD that amplifies bias, whatever its loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from modelkeep.core.method import declare
from modelkeep.papers.curves import Curve, PaperCurves, curves
from modelkeep.papers.leino2022.synthetic_data import EPOCHS, Array, draw, exact, sgd
from modelkeep.papers.result import Claim, above
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.study.names import trial
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial

RULES = ("SGD, logistic", "SGD, SVM", "L-BFGS, logistic", "SMO, SVM")
NEGLIGIBLE = 0.02
"""A bias below this is called none, and a difference below this a close match."""


@trial("leino2022/figure-9.4", formerly=("modelkeep.bias.studies.figure_9_4:train",))
def train(*, seed: int, rule: str, n: int, weak: int, variance: float, runs: int) -> dict[str, list[float]]:
    """The exact bias and accuracy per run. All rules get the same examples."""
    found: dict[str, list[float]] = {"bias": [], "accuracy": []}
    for run in range(runs):
        random = np.random.default_rng([seed, run, n, weak])
        x, y = draw(n, weak, variance, random)
        fitted = _fit_rule(rule, x, y, int(random.integers(2**31)))
        bias, accuracy = exact(fitted.coef_[0], float(fitted.intercept_[0]), variance)
        found["bias"].append(bias)
        found["accuracy"].append(accuracy)
    return found


def _fit_rule(rule: str, x: Array, y: Array, seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC

    if rule == "SGD, logistic":
        return sgd(x, y, EPOCHS, seed)
    if rule == "SGD, SVM":
        return sgd(x, y, EPOCHS, seed, loss="hinge")
    if rule == "L-BFGS, logistic":
        return LogisticRegression(solver="lbfgs", max_iter=1000).fit(x, y)
    return SVC(kernel="linear", C=1.0).fit(x, y)


def trials(size: Size, seed: int) -> Sequence[Trial]:
    """By number of weak features; the logistic rules also as the other reading of σ_w = 10 has it."""
    counts = [4, 16, 64, 256, 1024] if size == "small" else [2**i for i in range(1, 12)]
    settings = [*((rule, 10.0) for rule in RULES), ("SGD, logistic", 100.0), ("L-BFGS, logistic", 100.0)]
    runs = {"small": 10, "paper": 100}[size]
    return [
        Trial.of(train, {"rule": rule, "n": 500, "weak": weak, "variance": variance, "runs": runs}, seed)
        for rule, variance in settings
        for weak in counts
    ]


def report(result: StudyResult) -> PaperCurves:
    """One curve per learning rule."""
    x, series = curves(result, x="weak", y="bias", name=_setting)
    logistic, svm, lbfgs, smo = (series.get(rule, (None,)) for rule in RULES)
    return PaperCurves(
        study=result.study,
        x_label="weak features",
        y_label="bias amplification",
        x=x,
        series=series,
        paper={},  # the thesis prints no numbers, only the picture
        claims=(
            _within("SVMs by SGD amplify bias just as logistic regression by SGD does.", logistic, svm),
            above(
                "Logistic regression by L-BFGS amplifies less.",
                f"{x[-1]} weak features, SGD and L-BFGS",
                logistic[-1],
                lbfgs[-1],
            ),
            _within("SVMs by SMO amplify essentially no bias.", smo, None),
        ),
        log_x=True,
        provenance=result.provenance,
    )


def _setting(parameters: dict[str, Any]) -> str:
    reading = "" if parameters["variance"] == 10 else f", variance {parameters['variance']:g}"
    return f"{parameters['rule']}{reading}"


def _within(says: str, first: Curve, second: Curve | None) -> Claim:
    """The claim that a curve is nowhere further from the other (or from 0) than what is negligible."""
    other = [p.value if p else np.nan for p in second] if second is not None else [0.0] * len(first)
    far = [abs(p.value - q) if p else np.nan for p, q in zip(first, other, strict=True)]
    if not np.isfinite(far).all():
        return Claim(says, "a trial is missing.", None)
    return Claim(says, f"they are at most {max(far):.3f} apart; {NEGLIGIBLE} is called close.", max(far) <= NEGLIGIBLE)


_FIGURE_9_4 = declare(
    "study",
    "bias-figure-9.4",
    paper="Leino2022, figure 9.4",
    does="the bias of linear classifiers by SGD, L-BFGS and SMO on the same data",
)(PaperStudy(trials, report))
