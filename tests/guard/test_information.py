"""Lemma 2: entropies against their closed forms, and a bound that the Bayes attack never beats."""

from __future__ import annotations

import math

import numpy as np
import pytest

from modelkeep.core.errors import InputError
from modelkeep.core.results import Result
from modelkeep.guard.defences import ModelGuardS
from modelkeep.guard.grid import confidences, snap
from modelkeep.guard.information import InformationBound, differential_entropy, information_bound, least_error

MANY = 6000


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_a_gaussian_on_the_simplex_has_its_entropy_and_meets_the_bound(classes: int) -> None:
    """For a Gaussian lemma 2 is an equality: the bound is its total variance."""
    random, sigma = np.random.default_rng(0), 0.01
    noise = random.normal(0, sigma, (MANY, classes))
    clean = 1 / classes + noise - noise.mean(axis=1, keepdims=True)  # in the plane where confidences sum to one
    found = information_bound(clean, np.full((MANY, classes), 1 / classes))
    d = classes - 1
    assert found.entropy == pytest.approx(d / 2 * math.log(2 * math.pi * math.e * sigma**2), abs=0.05 * d)
    assert found.bound == pytest.approx(d * sigma**2, rel=0.1)
    assert found.bayes_loss.value == pytest.approx(d * sigma**2, rel=0.05)


def test_a_uniform_segment_and_a_uniform_simplex_have_their_volumes() -> None:
    random = np.random.default_rng(1)
    y = random.uniform(0.5, 1, MANY)
    assert differential_entropy(np.stack([y, 1 - y], axis=1), 1) == pytest.approx(math.log(math.sqrt(0.5)), abs=0.04)
    triangle = random.dirichlet(np.ones(3), MANY)  # equilateral, of side √2
    assert differential_entropy(triangle, 2) == pytest.approx(math.log(math.sqrt(3) / 2), abs=0.06)


def test_answers_split_the_entropy_and_shrink_the_bound_as_they_should() -> None:
    """m equal pieces of a segment of length L: h = log(L / m), and the Bayes attack errs by (L / m)² / 12."""
    y = np.random.default_rng(2).uniform(0.5, 1, MANY)
    clean = np.stack([y, 1 - y], axis=1)
    for pieces in (1, 4, 16):
        piece = math.sqrt(0.5) / pieces
        centre = 0.5 + (np.floor((y - 0.5) * 2 * pieces) + 0.5) / (2 * pieces)
        found = information_bound(clean, np.stack([centre, 1 - centre], axis=1))
        assert found.answers == pieces
        assert found.entropy == pytest.approx(math.log(piece), abs=0.06)
        assert found.bayes_loss.value == pytest.approx(piece**2 / 12, rel=0.05)
        assert found.bound <= found.bound_by_answer.value * (1 + 1e-9)
        assert found.bound_by_answer.value <= found.bayes_loss.value
        assert found.bound == pytest.approx(piece**2 / (2 * math.pi * math.e), rel=0.15)


def test_an_answer_that_stands_for_one_prediction_hides_nothing() -> None:
    clean = snap(np.random.default_rng(3).dirichlet(np.full(4, 0.3), 300))
    y = confidences(clean.units)
    nothing = information_bound(y, y)
    assert (nothing.entropy, nothing.bound, nothing.bayes_loss.value) == (-math.inf, 0.0, 0.0)
    assert nothing.alone.value == 1.0
    guarded = information_bound(y, confidences(ModelGuardS(1.0)(clean)))
    assert 0 < guarded.bound_by_answer.value < guarded.bayes_loss.value
    assert (guarded.entropy == -math.inf) == (guarded.alone.value > 0)


def test_equal_predictions_have_no_density() -> None:
    assert differential_entropy(np.full((10, 3), 1 / 3), 2) == -math.inf
    assert least_error(np.array(-math.inf), 2) == 0


def test_it_is_a_result_like_any_other() -> None:
    y = np.random.default_rng(4).dirichlet(np.ones(3), 20)
    found = information_bound(y, np.full((20, 3), 1 / 3))
    back = Result.from_json(found.to_json())
    assert isinstance(back, InformationBound)
    assert back.entropy == found.entropy
    assert "lemma 2" in str(found)


def test_tables_of_different_shapes_are_refused() -> None:
    y = np.full((4, 2), 0.5)
    with pytest.raises(InputError, match="two tables"):
        information_bound(y, y[:3])
    with pytest.raises(InputError, match="neighbours"):
        information_bound(y, y, neighbours=0)
