"""Attacks on the gate itself. Each was an exploit before it was a test; all ask for two answers to one query."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from modelkeep.core.errors import StoreUnavailable
from modelkeep.guard.defence import Defence
from modelkeep.guard.defences.modelguard_s import ModelGuardS
from modelkeep.guard.defences.modelguard_w import ModelGuardW
from modelkeep.guard.gate import Gate
from modelkeep.guard.grid import Units, distortion, snap
from modelkeep.guard.policy import Policy
from modelkeep.guard.store.sqlite import SqliteStore

NOISE = 1e-5
T = TypeVar("T")
Row = NDArray[np.float64]
CENTRE = np.array([0.9, 0.05, 0.05])
ON_THE_LINE = CENTRE + np.array([-0.25, 0.25, 0.0])  # exactly at the budget of 0.5 from the centre
STEP = np.array([-NOISE / 4, NOISE / 4, 0.0])  # an ℓ1 norm of half of the noise
FRESH = itertools.count()


def name(query: object) -> bytes:
    return sha256(str(query).encode()).digest()


def policy(defence: Defence, noise: float = NOISE) -> Policy:
    return Policy(defence, "weights", 3, noise=noise)


def ask(gate: Gate, *queries: tuple[object, Row]) -> Units:
    return gate.answer(np.stack([y for _, y in queries]), [name(query) for query, _ in queries])[1]


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore(tmp_path / "state.sqlite3")


def test_a_centroid_of_the_same_batch_may_put_a_query_on_the_line(store: SqliteStore) -> None:
    gate = Gate(policy(ModelGuardS(0.5)), store)
    first = ask(gate, ("centre", CENTRE), ("line", ON_THE_LINE - STEP))[1]
    assert (ask(gate, ("line", ON_THE_LINE + STEP))[0] == first).all()


def test_a_centroid_that_another_replica_brought_may_put_a_query_on_the_line(store: SqliteStore) -> None:
    stale, other = Gate(policy(ModelGuardS(0.5)), store), Gate(policy(ModelGuardS(0.5)), store)
    ask(other, ("centre", CENTRE))
    assert (ask(stale, ("line", ON_THE_LINE - STEP)) == ask(other, ("line", ON_THE_LINE + STEP))).all()


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 1e-5], ids=["none", "less than noise", "noise"])
@pytest.mark.parametrize("secret", [None, b"s" * 32], ids=["clean", "keyed"])
def test_a_budget_below_the_noise_does_not_free_a_query_of_its_own_centroid(
    store: SqliteStore, epsilon: float, secret: bytes | None
) -> None:
    gate = Gate(policy(ModelGuardS(epsilon, secret=secret)), store)
    assert (ask(gate, ("q", ON_THE_LINE - STEP)) == ask(gate, ("q", ON_THE_LINE + STEP))).all()


def test_noise_that_changes_the_sum_counts_threefold(store: SqliteStore) -> None:
    """Normalising doubles it, and the budget that going to the grid leaves moves as well."""
    noise = 1e-4
    gate = Gate(policy(ModelGuardS(0.5), noise), store)
    ask(gate, ("centre", CENTRE))
    for at in np.linspace(-6e-4, 6e-4, 61):
        for scale in (1.005, 1.0, 0.995):
            y = (ON_THE_LINE + at * np.array([-1, 1, 0])) * scale
            for direction in np.vstack([np.eye(3), -np.eye(3)]):
                query = next(FRESH)
                assert (ask(gate, (query, y)) == ask(gate, (query, y + 0.999 * noise * direction))).all()


def test_a_keyed_centroid_is_in_reach_of_a_prediction_that_does_not_sum_to_one(store: SqliteStore) -> None:
    """It was not, and each centroid out of reach was followed by another, for ever."""
    guarded = policy(ModelGuardS(0.012, secret=b"s" * 32))
    y = np.array([0.5, 0.3, 0.2]) * 1.009
    answer = ask(Gate(guarded, store), ("q", y))
    on_grid = snap(y[None])
    assert distortion(answer, on_grid.units) <= on_grid.allowed(0.012)
    assert store.sizes(guarded.epoch) == {0: 1}


@pytest.mark.parametrize("replaced", [False, True], ids=["removed", "replaced"])
def test_no_answer_leaves_into_a_file_that_lost_its_name(tmp_path: Path, replaced: bool) -> None:
    """SQLite writes on into a file that was removed, and all of it would be gone at the next start."""
    path, other = tmp_path / "state.sqlite3", tmp_path / "other.sqlite3"
    store = SqliteStore(path)
    gate = Gate(policy(ModelGuardS(0.5)), store)
    SqliteStore(other).close()
    path.unlink()
    if replaced:
        other.rename(path)
    with pytest.raises(StoreUnavailable, match=r"cannot be used|was replaced"):
        ask(gate, ("q", CENTRE))


def test_an_unsure_answer_that_the_store_does_not_confirm_stays_inside(store: SqliteStore) -> None:
    gate = Gate(policy(ModelGuardW(0.5)), store)
    store.remember = lambda epoch, answers: {}  # type: ignore[method-assign]
    with pytest.raises(KeyError):
        ask(gate, ("q", CENTRE))


class Flaky(SqliteStore):
    """Each call may fail before it does anything, or after it did everything."""

    random: np.random.Generator | None = None

    def centroids(self, epoch: str, label: int, after: int) -> Units:
        return self._perhaps(lambda: SqliteStore.centroids(self, epoch, label, after))

    def append(self, epoch: str, label: int, position: int, centroid: NDArray[np.int32]) -> bool:
        return self._perhaps(lambda: SqliteStore.append(self, epoch, label, position, centroid))

    def recall(self, epoch: str, queries: Sequence[bytes]) -> dict[bytes, NDArray[np.int32]]:
        return self._perhaps(lambda: SqliteStore.recall(self, epoch, queries))

    def remember(self, epoch: str, answers: Mapping[bytes, NDArray[np.int32]]) -> dict[bytes, NDArray[np.int32]]:
        return self._perhaps(lambda: SqliteStore.remember(self, epoch, answers))

    def _perhaps(self, work: Callable[[], T]) -> T:
        chance = 1.0 if self.random is None else self.random.random()
        if chance < 0.15:
            raise StoreUnavailable("It was away.")
        done = work()
        if chance < 0.3:
            raise StoreUnavailable("The connection was lost.")
        return done


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    epsilon=st.sampled_from([0.0, 2e-5, 0.012, 0.5]),
    secret=st.sampled_from([None, b"s" * 32]),
    ordered=st.integers(0, 4).map(bool),
)
def test_no_order_batch_replica_noise_or_lost_word_gives_a_second_answer(
    tmp_path_factory: pytest.TempPathFactory, seed: int, epsilon: float, secret: bytes | None, ordered: bool
) -> None:
    random = np.random.default_rng(seed)
    store = Flaky(tmp_path_factory.mktemp("flaky") / "state.sqlite3")
    guarded = policy(ModelGuardS(epsilon, secret=secret) if ordered else ModelGuardW(epsilon), noise=1e-4)
    on_lines = CENTRE + epsilon / 2 * np.array([[0, 0, 0], [-1, 1, 0], [-1, 0, 1]])
    y = np.concatenate([on_lines, [[0.4, 0.4, 0.2], [0.3, 0.3, 0.4]], random.dirichlet(np.ones(3), 4)])
    gates = [Gate(guarded, store) for _ in range(3)]
    store.random = random
    answers: dict[int, bytes] = {}
    for _ in range(30):
        rows = random.integers(len(y), size=random.integers(1, 6))  # with repetitions
        step = random.normal(size=(len(rows), 3))
        shaken = np.maximum(y[rows] + step / np.abs(step).sum(axis=1, keepdims=True) * 5e-5, 0)
        try:
            units = gates[random.integers(3)].answer(shaken, [name(row) for row in rows])[1]
        except StoreUnavailable:
            continue
        for row, answer in zip(rows, units, strict=True):
            assert answers.setdefault(int(row), answer.tobytes()) == answer.tobytes()
