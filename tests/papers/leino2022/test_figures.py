"""Tiny versions of figures 9.1, 9.3 and 9.4: they show what the thesis says, can fail to, and mark what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import log
from statistics import NormalDist

import pytest

from modelkeep.papers.leino2022 import figure_9_1, figure_9_3, figure_9_4
from modelkeep.study import Trial
from papers.leino2022.performing import performed, without


def points_9_1(seed: int = 0) -> list[Trial]:
    grid = product([0.5, 0.7, 0.9], [0.5, 2.0])
    return [Trial.of(figure_9_1.amplify, {"prior": p, "distance": d, "n": 20_000}, seed) for p, d in grid]


def test_figure_9_1_draws_the_theorem() -> None:
    result = figure_9_1.report(performed(points_9_1()))
    assert result.x == (0.5, 0.7, 0.9)
    phi, beta = NormalDist().cdf, -log(0.7 / 0.3) / 0.5  # theorem 9.1, letter by letter
    by_hand = 1 - 0.7 - (1 - 0.7) * phi(beta + 0.25) - 0.7 * phi(beta - 0.25)
    assert result.paper["D = 0.5"][1] == pytest.approx(by_hand, abs=1e-9)
    assert [claim.holds for claim in result.claims] == [True, True]
    wrong = {name: tuple(value + 0.02 for value in curve) for name, curve in result.paper.items()}
    assert figure_9_1._agreement(result.series, wrong).holds is False


def test_figure_9_1_marks_what_is_missing() -> None:
    result = figure_9_1.report(without(performed(points_9_1()), 0))
    assert result.series["D = 0.5"][0] is None
    assert "missing" in str(result)


def test_the_same_seed_gives_the_same_figures() -> None:
    first, again = (figure_9_1.report(performed(points_9_1(3))) for _ in range(2))
    assert first.series == again.series
    assert first.series != figure_9_1.report(performed(points_9_1(4))).series


def points_9_3(settings: Sequence[tuple[int, int, float, int | None, bool]], runs: int = 6) -> list[Trial]:
    names = ("n", "weak", "variance", "epochs", "centred")
    return [Trial.of(figure_9_3.train, {**dict(zip(names, s, strict=True)), "runs": runs}, 0) for s in settings]


def test_figure_9_3a() -> None:
    settings = [(n, weak, 10.0, 5, False) for n in (100, 1000) for weak in (4, 256)]
    found = performed(points_9_3([*settings, (100, 4, 10.0, 5, True), (100, 256, 10.0, 5, True)]))
    result = figure_9_3.report_a(found)
    assert list(result.series) == ["N = 100", "N = 1000", "N = 100, centred"]
    assert [claim.verdict for claim in result.claims] == ["holds", "holds"]
    # What the thesis does not say: without the intercept, which SGD learns too slowly, there is no bias.
    centred = result.series["N = 100, centred"][1]
    assert centred is not None
    assert abs(centred.value) < 0.01
    assert max(abs(1 - share) for share in found.records[5].value["intercept"]) < 0.1
    assert max(found.records[1].value["intercept"]) < 0.2
    missing = figure_9_3.report_a(without(found, 1))
    assert [claim.verdict for claim in missing.claims] == ["unclear", "unclear"]


def test_figure_9_3b() -> None:
    settings = [(n, 256, v, 5, False) for n in (100, 1000) for v in (1.0, 10.0, 30.0, 1000.0)]
    result = figure_9_3.report_b(performed(points_9_3(settings)))
    assert [claim.verdict for claim in result.claims] == ["holds"] * 3
    assert result.x == (1, 10, 30, 1000)


def test_figure_9_3c() -> None:
    settings = [(n, 64, v, 5, False) for v in (2.0, 10.0) for n in (100, 2000)]
    result = figure_9_3.report_c(performed(points_9_3(settings)))
    assert [claim.verdict for claim in result.claims] == ["holds"] * 3
    assert "(N = 2000)" in result.claims[0].found


def test_figure_9_4() -> None:
    settings = [{"rule": rule, "n": 100, "weak": w, "variance": 10.0} for rule in figure_9_4.RULES for w in (64, 512)]
    found = performed([Trial.of(figure_9_4.train, {**setting, "runs": 5}, 0) for setting in settings])
    result = figure_9_4.report(found)
    assert list(result.series) == list(figure_9_4.RULES)
    sgd, smo = result.series["SGD, logistic"][1], result.series["SMO, SVM"][1]
    assert sgd is not None
    assert smo is not None
    assert sgd.low > 0.15 > smo.high
    assert result.claims[1].verdict == "holds"
    assert figure_9_4.report(without(found, 6)).claims[2].verdict == "unclear"
    raised = tuple(replace(p, value=p.value + 0.1) if p else None for p in result.series["SGD, SVM"])
    assert figure_9_4._within("", result.series["SGD, SVM"], raised).holds is False
