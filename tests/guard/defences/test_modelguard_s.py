"""ModelGuard-S against algorithm 1 as the paper writes it, its look-up against brute force, and its secret form."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from modelkeep.core.description import describe
from modelkeep.core.errors import InputError
from modelkeep.guard.defences import Centroids, ModelGuardS, Unordered
from modelkeep.guard.defences.keyed_point import keyed_point
from modelkeep.guard.defences.modelguard_s import LANES
from modelkeep.guard.grid import ONE, Predictions, Units, budget, distortion, snap

SECRET = b"a secret of the test"


def drawn(seed: int, count: int, classes: int, concentration: float, grain: int = 0) -> Predictions:
    """Predictions; with a `grain` on a coarse grid, where distances equal to a budget and to each other are common."""
    values = np.random.default_rng(seed).dirichlet(np.full(classes, concentration), count)
    if grain:
        values = np.floor(values * grain)
        values[np.arange(count), values.argmax(axis=1)] += grain - values.sum(axis=1)
        values /= grain
    return snap(values)


def algorithm_1(predictions: Predictions, epsilon: float) -> tuple[Units, dict[int, list[NDArray[np.int32]]]]:
    """The obvious implementation: answers and lists of centroids."""
    lists: dict[int, list[NDArray[np.int32]]] = {}
    answers = []
    for y, label, spent in zip(predictions.units, predictions.labels, predictions.spent, strict=True):
        centroids = lists.setdefault(int(label), [])
        allowed = max(budget(epsilon) - int(spent), 0)
        if not centroids or min(np.abs(c.astype(np.int64) - y).sum() for c in centroids) > allowed:
            centroids.append(y)
        answers.append(next(c for c in centroids if np.abs(c.astype(np.int64) - y).sum() <= allowed))
    return np.array(answers), lists


def brute_force(rows: Units, y: NDArray[np.int32], allowed: int, slack: int) -> tuple[int, bool]:
    distances = distortion(rows, y)
    near = np.flatnonzero(distances <= allowed)
    looked_at = distances[: near[0] + 1] if len(near) else distances
    close = bool((np.abs(looked_at - allowed) <= slack).any())
    return (int(near[0]) if len(near) else -1), close and slack > 0


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 30),
    st.sampled_from([0.03, 0.2, 1.0, 5.0]),
    st.sampled_from([0, 4, 16, 64]),
    st.sampled_from([0.0, 0.125, 0.5, 1.0, 1.75]),
)
def test_it_is_algorithm_1_bit_for_bit(
    seed: int, classes: int, concentration: float, grain: int, epsilon: float
) -> None:
    predictions = drawn(seed, 250, classes, concentration, grain)
    defence = ModelGuardS(epsilon)
    state = defence.initial(classes)
    answers, lists = algorithm_1(predictions, epsilon)
    np.testing.assert_array_equal(defence(predictions, state), answers)
    for label in range(classes):
        assert state.rows(label).tolist() == [c.tolist() for c in lists.get(label, [])]


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 120),
    st.sampled_from([0.03, 0.2, 1.0]),
    st.sampled_from([0, 8, 64]),
    st.integers(0, 2 * ONE),
    st.sampled_from([0, 1, 500, ONE // 4, ONE]),
)
def test_a_look_up_is_brute_force(
    seed: int, classes: int, concentration: float, grain: int, allowed: int, slack: int
) -> None:
    random = np.random.default_rng(seed)
    known = drawn(seed, int(random.integers(0, 4 * LANES)), classes, concentration, grain)
    asked = drawn(seed + 1, 40, classes, concentration, grain)
    state = Centroids(classes)
    for label, centroid in zip(known.labels, known.units, strict=True):
        state.append(int(label), centroid)
    # For half of the rows the budget is a distance that occurs, or next to one.
    allowances = np.full(len(asked), allowed)
    for row in range(0, len(asked), 2):
        rows = state.rows(int(asked.labels[row]))
        if len(rows):
            distance = distortion(rows, asked.units[row])[random.integers(len(rows))]
            allowances[row] = max(distance + random.integers(-1, 2), 0)
    index, unsure = state.match(asked.units, asked.labels, allowances, slack)
    for row in range(len(asked)):
        rows = state.rows(int(asked.labels[row]))
        expected = brute_force(rows, asked.units[row], int(allowances[row]), slack)
        assert (index[row], unsure[row]) == expected
        one = slice(row, row + 1)
        alone = state.match(asked.units[one], asked.labels[one], int(allowances[row]), slack)
        assert (alone[0][0], alone[1][0]) == expected


def test_exactly_on_the_budget_is_within_it() -> None:
    defence = ModelGuardS(0.5)
    state = defence.initial(2)
    centre = np.array([[3 * ONE // 4, ONE // 4]], dtype=np.int32)
    for step, length in ((0, 1), (budget(0.5) // 2, 1), (budget(0.5) // 2 + 1, 2)):
        y = centre + np.array([[step, -step]], dtype=np.int32)
        if y.min() >= 0:
            defence(Predictions(y, np.array([0]), np.array([0])), state)
            assert state.length(0) == length


def test_lists_grow_past_their_blocks_and_copies_are_independent() -> None:
    state = Centroids(3)
    rows = drawn(0, 5 * LANES + 3, 3, 1.0).units
    for row in rows:
        state.append(1, row)
    np.testing.assert_array_equal(state.rows(1), rows)
    twin = state.copy()
    twin.append(1, rows[0])
    assert (state.length(1), twin.length(1), twin.length(0)) == (len(rows), len(rows) + 1, 0)


def test_a_reader_beside_a_writer_sees_a_prefix() -> None:
    state, rows = Centroids(4), drawn(1, 3000, 4, 0.3).units
    wrong: list[int] = []

    def read() -> None:
        while state.length(2) < len(rows):
            known = state.length(2)
            asked = rows[known // 2 : known // 2 + 4]
            index, _ = state.match(asked, np.full(len(asked), 2), 0)
            wrong.extend(i for at, i in enumerate(index) if known > known // 2 + at and i != known // 2 + at)

    reader = threading.Thread(target=read)
    reader.start()
    for row in rows:
        state.append(2, row)
    reader.join()
    assert wrong == []


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([2, 3, 10, 100]),
    st.sampled_from([0.02, 1.0, 50.0]),
    st.sampled_from([2, 3, 11, 1000, ONE // 2, 2 * ONE]),
)
def test_a_keyed_point_is_near_never_clean_and_always_the_same(
    seed: int, classes: int, concentration: float, allowed: int
) -> None:
    predictions = drawn(seed, 5, classes, concentration)
    for position, (y, label) in enumerate(zip(predictions.units, predictions.labels.tolist(), strict=True)):
        point = keyed_point(SECRET, y, label, position, allowed)
        assert (point != y).any()
        assert distortion(point, y) <= max(allowed // 2, 2)
        assert point.sum() == ONE
        assert point.min() >= 0
        assert (np.delete(point, label) < point[label]).all()
        np.testing.assert_array_equal(point, keyed_point(SECRET, y, label, position, allowed))


def test_another_secret_or_position_draws_another_point() -> None:
    y = snap(np.array([[0.5, 0.3, 0.2]])).units[0]
    points = [keyed_point(key, y, 0, position, ONE) for key in (SECRET, b"another one") for position in range(50)]
    assert len({point.tobytes() for point in points}) == len(points)
    # They lie around the prediction: no class is always the one that gains.
    gains = np.array(points) > y
    assert gains.any(axis=0).all()


def test_with_a_secret_no_answer_is_clean_and_every_answer_repeats() -> None:
    predictions = drawn(3, 400, 10, 0.3)
    defence = ModelGuardS(1.0, secret=SECRET)
    state = defence.initial(10)
    first = defence(predictions, state)
    assert (first != predictions.units).any(axis=1).all()
    assert (ModelGuardS(1.0)(predictions) == predictions.units).all(axis=1).any()  # the paper's form has clean answers
    np.testing.assert_array_equal(defence(predictions, state), first)


def test_a_list_seeded_by_the_owner_answers_from_it() -> None:
    mine = drawn(4, 2000, 5, 0.5)
    defence = ModelGuardS(1.0, seeded=mine.units)
    state = defence.initial(5)
    _reference, lists = algorithm_1(Predictions(mine.units, mine.labels, np.zeros(2000, np.int64)), 1.0)
    assert [state.length(label) for label in range(5)] == [len(lists[label]) for label in range(5)]
    theirs = drawn(5, 500, 5, 0.5)
    clean = (defence(theirs, state) == theirs.units).all(axis=1).mean()
    assert clean < (ModelGuardS(1.0)(theirs) == theirs.units).all(axis=1).mean()


def test_the_secret_is_in_no_text_and_still_part_of_the_policy() -> None:
    assert "secret" not in repr(ModelGuardS(1.0, secret=SECRET))
    assert describe(ModelGuardS(1.0, secret=SECRET)) != describe(ModelGuardS(1.0, secret=b"another one"))
    with pytest.raises(InputError, match="can be guessed"):
        ModelGuardS(1.0, secret=b"short")
    with pytest.raises(InputError, match="Seeds for 4 classes"):
        ModelGuardS(1.0, seeded=drawn(0, 3, 5, 1.0).units).initial(4)


def test_without_an_order_an_answer_changes() -> None:
    """Figure 2: the black point moves from the blue to the green centroid, and tells where it lies."""
    seen = snap(np.array([[0.9, 0.1], [0.7, 0.3], [0.6, 0.4], [0.7, 0.3]]))
    for defence, same in ((ModelGuardS(0.5), True), (Unordered(0.5), False)):
        answers = defence(seen, defence.initial(2))
        assert ((answers[1] == answers[3]).all()) == same


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.25, 0.5, 1.0]))
def test_unordered_answers_are_the_nearest_centroids(seed: int, epsilon: float) -> None:
    predictions = drawn(seed, 60, 4, 0.5, grain=16)
    defence = Unordered(epsilon)
    state = defence.initial(4)
    for row in range(len(predictions)):
        this = slice(row, row + 1)
        one = Predictions(predictions.units[this], predictions.labels[this], predictions.spent[this])
        answer = defence(one, state)
        distances = distortion(state.rows(int(one.labels[0])), one.units[0])
        assert distortion(answer, one.units)[0] == distances.min() <= one.allowed(epsilon)[0]
