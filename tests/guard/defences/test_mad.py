"""MAD: gradients in closed form, optima by brute force and by HiGHS, and constraints that hold to the unit."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog, nnls
from torch import nn

from modelkeep import Model
from modelkeep.core.errors import InputError
from modelkeep.guard.defences.angle import turn
from modelkeep.guard.defences.exchange import cheapest
from modelkeep.guard.defences.gram import gradients_gram
from modelkeep.guard.defences.mad import MAD
from modelkeep.guard.grid import ONE, Predictions, Units, budget, distortion, snap
from modelkeep.training.fresh_network import copy_untrained

Matrix = NDArray[np.float64]


def a_gram(random: np.random.Generator, classes: int, rank: int = 50, answer: Matrix | None = None) -> Matrix:
    """That of log-softmax gradients: f, the surrogate's own `answer`, is in its kernel."""
    jacobian = random.normal(size=(classes, rank))
    rows = jacobian - (random.dirichlet(np.ones(classes)) if answer is None else answer) @ jacobian
    return np.asarray(rows @ rows.T)


def cosine(answer: NDArray[np.generic], clean: Units, gram: Matrix) -> NDArray[np.float64]:
    """The cosine of the angle of equation B.2 for each row of `answer`."""
    ours, theirs = np.asarray(answer, dtype=np.float64), np.asarray(clean, dtype=np.float64)
    lengths = np.sqrt(np.einsum("nk,kl,nl->n", ours, gram, ours) * (theirs @ gram @ theirs))
    return np.asarray(ours @ gram @ theirs / np.maximum(lengths, 1e-300))


def one(random: np.random.Generator, classes: int, concentration: float) -> Predictions:
    return snap(random.dirichlet(np.full(classes, concentration))[None])


def turned(predictions: Predictions, epsilon: float, gram: Matrix, exact: int) -> Units:
    return turn(predictions.units, predictions.labels, predictions.allowed(epsilon), gram, exact)


def assert_kept(answers: Units, predictions: Predictions, epsilon: float) -> None:
    assert answers.dtype == np.int32
    assert (answers.sum(axis=1) == ONE).all()
    assert (answers >= 0).all()
    spent = distortion(answers, predictions.units) + predictions.spent
    assert ((spent <= budget(epsilon)) | (answers == predictions.units).all(axis=1)).all()
    for row, label in zip(answers, predictions.labels, strict=True):
        assert (np.delete(row, label) < row[label]).all()


@pytest.mark.parametrize(("classes", "steps"), [(3, 240), (4, 60)])
def test_brute_force_over_the_simplex_finds_nothing_better(classes: int, steps: int) -> None:
    counts = np.array([c for c in product(range(steps + 1), repeat=classes - 1) if sum(c) <= steps])
    simplex = np.column_stack([counts, steps - counts.sum(axis=1)]) * (ONE / steps)
    random = np.random.default_rng(classes)
    obtuse = 0
    for _ in range(40):
        gram, clean, epsilon = a_gram(random, classes), one(random, classes, 1.0), float(random.choice([0.5, 1.0, 1.5]))
        answer = turned(clean, epsilon, gram, exact=classes)
        assert_kept(answer, clean, epsilon)
        label = clean.labels[0]
        allowed = np.abs(simplex - clean.units).sum(axis=1) <= budget(epsilon) - clean.spent[0]
        allowed &= (np.delete(simplex, label, axis=1) < simplex[:, [label]]).all(axis=1)
        found = cosine(answer, clean.units[0], gram)[0]
        if allowed.any():
            assert found <= cosine(simplex[allowed], clean.units[0], gram).min() + 1e-5
        obtuse += found < 0
    assert 5 <= obtuse <= 35  # the convex problem and that of the vertices both occurred


@pytest.mark.parametrize("classes", [5, 6, 7])
def test_no_vertex_is_better_than_the_best_and_the_greedy_way_is_near_it(classes: int) -> None:
    random = np.random.default_rng(classes)
    gaps = []
    for _ in range(15):
        gram, clean = a_gram(random, classes), one(random, classes, 0.5)
        best = cosine(turned(clean, 1.0, gram, exact=classes), clean.units[0], gram)[0]
        moves = int(budget(1.0) - clean.spent[0]) // 2
        vertices = np.stack(
            [cheapest(clean.units[0], clean.labels[0], moves, random.normal(size=classes)) for _ in range(300)]
        )
        assert best <= cosine(vertices, clean.units[0], gram).min() + 1e-5
        greedy = turned(clean, 1.0, gram, exact=0)
        assert_kept(greedy, clean, 1.0)
        gaps.append(cosine(greedy, clean.units[0], gram)[0] - best)
    assert min(gaps) > -1e-5
    assert np.mean(gaps) < 0.01


def test_beyond_a_right_angle_many_classes_are_solved_to_the_optimum() -> None:
    random = np.random.default_rng(0)
    several = 0
    for _ in range(15):
        gram, clean = a_gram(random, 20), one(random, 20, 3.0)
        answer = turned(clean, 1.0, gram, exact=0)
        assert_kept(answer, clean, 1.0)
        found = cosine(answer, clean.units[0], gram)[0]
        if found < 0:
            columns = projected(gram, clean)
            best = cosine(columns.sum(axis=0)[None], clean.units[0], gram)[0]
            assert found == pytest.approx(best, abs=1e-4)
            several += len(columns) > 2
    assert several > 5


def projected(gram: Matrix, clean: Predictions) -> Matrix:
    """The vertices, with their weights, that make up the projection of −Gᵀy on the cone over P: scipy's answer."""
    values, vectors = np.linalg.eigh(gram)
    root, y = (vectors * np.sqrt(np.maximum(values, 0))).T, clean.units[0] / ONE
    columns: list[NDArray[np.float64]] = []
    slope = gram @ y
    for _ in range(100):
        columns.append(cheapest(clean.units[0], clean.labels[0], ONE // 2, slope) / ONE)
        weights, _ = nnls(root @ np.array(columns).T, -root @ y)
        point = weights @ np.array(columns)
        if columns[-1] @ slope > -1e-8 * (y @ gram @ y):
            break
        slope = gram @ (y + point)
    return np.array(columns)[weights > 0] * weights[weights > 0][:, None]


def test_the_linear_programme_agrees_with_highs() -> None:
    random = np.random.default_rng(2)
    for _ in range(150):
        classes = int(random.integers(2, 9))
        clean, cost, share = one(random, classes, 0.5), random.normal(size=classes), float(random.uniform())
        y, top = clean.units[0], clean.labels[0]
        found = cheapest(y, top, int(share * ONE), cost)
        assert (found == np.round(found)).all()
        assert found.sum() == ONE
        # ŷ and the distances t ≥ |ŷ − y|, in one vector.
        eye, others = np.eye(classes), np.delete(np.eye(classes), top, axis=0)
        below = np.hstack([others - eye[top], np.zeros_like(others)])
        near = np.vstack([np.hstack([eye, -eye]), np.hstack([-eye, -eye])])
        sums = np.concatenate([np.zeros(classes), np.ones(classes)])
        limits = np.concatenate([np.full(classes - 1, -1 / ONE), y / ONE, -y / ONE, [2 * share]])
        truth = linprog(
            np.concatenate([cost, np.zeros(classes)]),
            A_ub=np.vstack([below, near, sums]),
            b_ub=limits,
            A_eq=(1 - sums)[None],
            b_eq=[1.0],
        )
        assert cost @ found / ONE == pytest.approx(truth.fun, abs=1e-6)


@given(
    st.integers(2, 6),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["drawn", "flat", "certain", "tied", "sparse", "the surrogate's"]),
    st.sampled_from([0.0, 1e-6, 1e-3, 0.5, 1.0, 2.0]),
    st.booleans(),
)
def test_the_constraints_hold_to_the_unit(classes: int, seed: int, kind: str, epsilon: float, exact: bool) -> None:
    random = np.random.default_rng(seed)
    y = random.dirichlet(np.ones(classes))
    if kind == "flat":
        y = np.full(classes, 1 / classes)
    elif kind == "certain":
        y = np.eye(classes)[seed % classes]
    elif kind == "tied":
        y[0] = y[1] = y[:2].max()
    elif kind == "sparse":
        y[random.random(classes) < 0.5] = 0
        y[seed % classes] += 0.1
    clean = snap((y / y.sum())[None])
    own = clean.units[0] / ONE if kind == "the surrogate's" else None
    gram = a_gram(random, classes, rank=1 + seed % 4, answer=own)
    assert_kept(turned(clean, epsilon, gram, exact=classes if exact else 0), clean, epsilon)


def test_a_defence_of_digits_turns_the_gradients_further_than_the_originals_candidates(small_cnn: Model) -> None:
    surrogate = copy_untrained(small_cnn, seed=5)
    random = np.random.default_rng(1)
    clean, x = snap(random.dirichlet(np.full(4, 0.5), size=12)), torch.rand(12, 1, 8, 8)
    answers = MAD(surrogate)(clean, None, x)
    assert_kept(answers, clean, 1.0)
    assert (distortion(answers, clean.units) > 0).all()
    for row in range(12):
        gram, y, label = gradients_gram(surrogate, x[[row]]), clean.units[row], clean.labels[row]
        found = cosine(answers[[row]], y, gram)[0]
        for k in range(4):
            shares = np.linspace(0, 1, 201)[:, None]
            points = (1 - shares) * y + shares * np.eye(4)[k] * ONE
            near = np.abs(points - y).sum(axis=1) <= ONE
            near &= points.argmax(axis=1) == label
            assert found <= cosine(points[near], y, gram).min() + 1e-5


def test_the_same_query_gets_the_same_answer_whatever_else_is_asked(small_cnn: Model) -> None:
    random = np.random.default_rng(1)
    predictions, x = random.dirichlet(np.full(4, 0.5), size=40), torch.rand(20, 1, 8, 8)
    which = random.integers(0, 20, size=40)  # several predictions for one query
    answers = MAD(small_cnn)(snap(predictions), None, x[which])
    for row in range(40):
        alone = MAD(small_cnn)(snap(predictions[[row]]), None, x[[which[row]]])
        np.testing.assert_array_equal(alone[0], answers[row])


def test_where_no_gradient_is_there_is_no_angle() -> None:
    surrogate = Model(nn.Linear(3, 4, bias=False), input_shape=(3,), classes=4, bounds=None)
    clean = snap(np.array([[0.1, 0.2, 0.3, 0.4]]))
    np.testing.assert_array_equal(MAD(surrogate)(clean, None, torch.zeros(1, 3)), clean.units)


def test_what_it_cannot_do_is_refused(small_cnn: Model) -> None:
    clean = snap(np.array([[0.1, 0.2, 0.3, 0.4]]))
    with pytest.raises(InputError, match="needs 1 inputs, one per prediction"):
        MAD(small_cnn)(clean)
    with pytest.raises(InputError, match="4 classes for predictions of 2"):
        MAD(small_cnn)(snap(np.array([[0.4, 0.6]])), None, torch.zeros(1, 1, 8, 8))
    with pytest.raises(InputError, match="epsilon"):
        MAD(small_cnn, epsilon=3.0)
    with pytest.raises(InputError, match="exact"):
        MAD(small_cnn, exact=20)
