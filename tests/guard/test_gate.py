"""The gate: one query, one answer, whatever the replica, the order, the noise or the crash."""

from __future__ import annotations

import threading
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from modelkeep.core.errors import GuardError, InputError, PredictionError, StoreUnavailable
from modelkeep.guard.defence import Defence
from modelkeep.guard.defences.modelguard_s import ModelGuardS
from modelkeep.guard.defences.modelguard_w import ModelGuardW
from modelkeep.guard.defences.no_defence import NoDefence
from modelkeep.guard.defences.top_one import TopOne
from modelkeep.guard.defences.unordered_quantiser import Unordered
from modelkeep.guard.gate import Gate
from modelkeep.guard.grid import ONE, Units, budget, distortion, snap
from modelkeep.guard.policy import Policy
from modelkeep.guard.store.sqlite import SqliteStore

CLASSES = 4
Table = NDArray[np.float64]


def policy(defence: Defence | None = None, noise: float = 1e-5) -> Policy:
    return Policy(defence or ModelGuardS(0.5), "weights", CLASSES, noise=noise)


def drawn(count: int, seed: int = 0) -> Table:
    return np.random.default_rng(seed).dirichlet(np.ones(CLASSES), count)


def hashes(count: int) -> list[bytes]:
    return [sha256(str(i).encode()).digest() for i in range(count)]


def algorithm_1(predictions: Table, epsilon: float) -> Units:
    """Algorithm 1 of the paper, as obvious as it gets."""
    on_grid = snap(predictions)
    logs: dict[int, list[NDArray[np.int32]]] = {label: [] for label in range(CLASSES)}
    answers = []
    for y, label, spent in zip(on_grid.units, on_grid.labels, on_grid.spent, strict=True):
        log = logs[int(label)]
        near = [c for c in log if distortion(c, y) <= budget(epsilon) - spent]
        if not near:
            log.append(y)
            near = [y]
        answers.append(near[0])
    return np.array(answers)


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore(tmp_path / "state.sqlite3")


def test_an_empty_batch_has_an_empty_answer(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "e.sqlite3")
    assert Gate(Policy(ModelGuardS(1.0), "m", 4), store).answer(np.empty((0, 4)), [])[1].shape == (0, 4)
    assert ModelGuardS(1.0)(snap(np.empty((0, 4)))).shape == (0, 4)
    store.close()


def test_it_is_algorithm_1(store: SqliteStore) -> None:
    y = drawn(300)
    _, answers = Gate(policy(noise=0.0), store).answer(y, hashes(300))
    assert (answers == algorithm_1(y, 0.5)).all()


def test_answers_hold_after_a_restart_in_any_batch_and_order(store: SqliteStore) -> None:
    y, names = drawn(200), hashes(200)
    _, first = Gate(policy(), store).answer(y, names)
    again = Gate(policy(), store)
    order = np.random.default_rng(1).permutation(200)
    for rows in np.array_split(order, 23):
        _, answers = again.answer(y[rows], [names[i] for i in rows])
        assert (answers == first[rows]).all()


def test_replicas_that_see_queries_in_other_orders_agree(store: SqliteStore) -> None:
    y, names = drawn(150), hashes(150)
    gates = [Gate(policy(), store) for _ in range(3)]
    seen: dict[int, bytes] = {}
    problems: list[str] = []

    def ask(gate: Gate, seed: int) -> None:
        for row in np.random.default_rng(seed).permutation(150):
            _, answer = gate.answer(y[row : row + 1], [names[row]])
            if seen.setdefault(int(row), answer.tobytes()) != answer.tobytes():
                problems.append(f"query {row} got two answers")

    threads = [threading.Thread(target=ask, args=(gate, seed)) for seed, gate in enumerate(gates)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    for label in range(CLASSES):
        logs = [store.centroids(policy().epoch, label, 0)] + [gate.centroids.rows(label) for gate in gates]
        for log in logs[1:]:  # each replica has read a prefix
            assert (logs[0][: len(log)] == log).all()


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    defence=st.sampled_from([ModelGuardS(0.5), ModelGuardS(1.0), ModelGuardW(0.5), TopOne()]),
)
def test_noise_never_changes_an_answer(tmp_path_factory: pytest.TempPathFactory, seed: int, defence: Defence) -> None:
    """Predictions that sit on every line there is: exactly at the budget of a centroid, tied, between grid points."""
    store = SqliteStore(tmp_path_factory.mktemp("noise") / "state.sqlite3")
    noise = 1e-4
    random = np.random.default_rng(seed)
    y = lines(random)
    names = hashes(len(y))
    gates = [Gate(policy(defence, noise), store) for _ in range(2)]
    first: dict[int, bytes] = {}
    for _ in range(6):
        for row in random.permutation(len(y)):
            shaken = np.abs(y[row] + (step := random.normal(size=CLASSES)) * noise / 4 / np.abs(step).sum())
            shaken /= shaken.sum()
            assert np.abs(shaken - y[row]).sum() <= noise / 2  # so that two of them lie within the noise
            _, answer = gates[random.integers(2)].answer(shaken[None], [names[row]])
            assert first.setdefault(int(row), answer.tobytes()) == answer.tobytes()
    assert any(gate.unsure for gate in gates)


def test_without_the_memory_for_unsure_answers_noise_does_change_them(store: SqliteStore) -> None:
    """The test above can fail: with the noise declared as none, the same shaking changes answers."""
    random = np.random.default_rng(0)
    y = lines(random)
    gate = Gate(policy(ModelGuardS(0.5), noise=0.0), store)
    answers = []
    for _ in range(8):
        shaken = np.abs(y + random.normal(size=y.shape) * 1e-5)
        answers.append(gate.answer(shaken / shaken.sum(axis=1, keepdims=True), hashes(len(y)))[1])
    assert any((other != answers[0]).any() for other in answers[1:])


def lines(random: np.random.Generator) -> Table:
    """A few predictions, and others that lie at ℓ1 distance 0.5 of them, or whose two largest confidences are equal."""
    centre = random.dirichlet(np.ones(CLASSES) * 3, 4) * 0.4
    centre[:, 0] += 0.6
    shifted = centre.copy()
    shifted[:, 0] -= 0.25
    shifted[:, 1] += 0.25
    tied = np.array([[0.4, 0.4, 0.1, 0.1], [0.3, 0.3, 0.3, 0.1]])
    return np.concatenate([centre, shifted, tied])


class Broken(SqliteStore):
    """A store whose next write fails."""

    broken = False

    def append(self, epoch: str, label: int, position: int, centroid: NDArray[np.int32]) -> bool:
        if self.broken:
            raise StoreUnavailable("The disk is full.")
        return super().append(epoch, label, position, centroid)


def test_no_answer_leaves_before_its_centroid_is_durable(tmp_path: Path) -> None:
    store = Broken(tmp_path / "state.sqlite3")
    gate = Gate(policy(), store)
    store.broken = True
    with pytest.raises(StoreUnavailable, match="The disk is full"):
        gate.answer(drawn(1), hashes(1))
    assert sum(gate.centroids.length(label) for label in range(CLASSES)) == 0
    store.broken = False
    gate.answer(drawn(1), hashes(1))


def test_an_append_whose_confirmation_was_lost_is_not_made_twice(tmp_path: Path) -> None:
    class Unheard(SqliteStore):
        """A store that wrote and could not say so."""

        deaf = 1

        def append(self, epoch: str, label: int, position: int, centroid: NDArray[np.int32]) -> bool:
            done = super().append(epoch, label, position, centroid)
            if self.deaf:
                self.deaf = 0
                raise StoreUnavailable("The connection was lost.")
            return done

    store = Unheard(tmp_path / "state.sqlite3")
    gate = Gate(policy(), store)
    with pytest.raises(StoreUnavailable):
        gate.answer(drawn(1), hashes(1))
    _, answer = gate.answer(drawn(1), hashes(1))
    assert (answer == snap(drawn(1)).units).all()
    assert sum(store.sizes(policy().epoch).values()) == 1


@pytest.mark.parametrize("defence", [NoDefence(), TopOne(), ModelGuardW(1.0), ModelGuardS(1.0)], ids=lambda d: d.name)
def test_constraints_hold_for_what_leaves(store: SqliteStore, defence: Defence) -> None:
    predictions, answers = Gate(policy(defence), store).answer(drawn(100), hashes(100))
    assert (answers.sum(axis=1) == ONE).all()
    assert (answers >= 0).all()
    assert (answers.argmax(axis=1) == predictions.labels).all()
    allowed = np.maximum(budget(defence.epsilon) - predictions.spent, 0)  # where that is nothing: the grid point itself
    assert (distortion(answers, predictions.units) <= allowed).all()


def test_centroids_from_the_owners_data_begin_the_log(store: SqliteStore) -> None:
    seeds = snap(drawn(50, seed=7)).units
    guarded = policy(ModelGuardS(0.5, seeded=seeds))
    Gate(guarded, store)
    gate = Gate(guarded, store)  # a second replica plants nothing twice
    planted = algorithm_1(drawn(50, seed=7), 0.5)
    known = {row.tobytes() for label in range(CLASSES) for row in gate.centroids.rows(label)}
    assert known == {row.tobytes() for row in planted}


def test_other_settings_are_another_epoch() -> None:
    epochs = {
        policy().epoch,
        policy(ModelGuardS(0.6)).epoch,
        policy(ModelGuardS(0.5, secret=b"a" * 32)).epoch,
        policy(ModelGuardS(0.5, secret=b"b" * 32)).epoch,
        policy(ModelGuardW(0.5)).epoch,
        policy(noise=1e-4).epoch,
        Policy(ModelGuardS(0.5), "other weights", CLASSES).epoch,
        Policy(ModelGuardS(0.5), "weights", CLASSES, dtype="float16").epoch,
        Policy(ModelGuardS(0.5), "weights", CLASSES + 1).epoch,
    }
    assert len(epochs) == 9
    assert policy().epoch == policy().epoch


@pytest.mark.parametrize("defence", [TopOne(), ModelGuardS(0.5)], ids=["top-1", "modelguard-s"])
@pytest.mark.parametrize(("beyond", "unsure"), [(-1, True), (0, True), (1, False)], ids=["within", "edge", "beyond"])
def test_a_margin_of_the_slack_is_still_a_tie(store: SqliteStore, defence: Defence, beyond: int, unsure: bool) -> None:
    """Noise as large as the slack can make the two largest confidences equal, so the first answer must be kept."""
    guarded = policy(defence)
    margin, second = guarded.slack + beyond, ONE // 4
    rest = ONE - 2 * second - margin
    units = np.array([[second + margin, second, rest // 2, rest - rest // 2]])
    gate = Gate(guarded, store)
    gate.answer(np.eye(CLASSES), hashes(CLASSES))  # so that the list of ModelGuard-S is not empty
    assert gate.quick(units / ONE, [bytes(32)]).unsure.tolist() == [unsure]


def test_a_state_that_the_gate_would_not_keep_is_refused(store: SqliteStore) -> None:
    with pytest.raises(GuardError, match="'unordered' has a state"):
        Gate(policy(Unordered(0.5)), store)


def test_what_is_no_prediction_is_no_answer(store: SqliteStore) -> None:
    gate = Gate(policy(), store)
    with pytest.raises(PredictionError, match="NaN"):
        gate.answer(np.full((1, CLASSES), np.nan), hashes(1))
    with pytest.raises(InputError, match="announced"):
        gate.answer(np.array([[0.5, 0.5]]), hashes(1))
    assert store.sizes(policy().epoch) == {}
