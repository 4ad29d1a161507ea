"""Detection: synthetic and foreign queries are unusual, ordinary ones are not, and few say nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from modelkeep.core.errors import InputError
from modelkeep.guard.gateway import query_monitor
from modelkeep.guard.gateway.query_monitor import QueryMonitor, Suspicion
from modelkeep.guard.grid import snap

Rows = NDArray[np.float32]
Feed = Callable[..., list[Suspicion]]


@pytest.fixture(scope="module")
def digits() -> tuple[Rows, NDArray[np.int64]]:
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    return (x[order] / 16).astype(np.float32), y[order]


@pytest.fixture(scope="module")
def model(digits: tuple[Rows, NDArray[np.int64]]) -> LogisticRegression:
    return LogisticRegression(max_iter=1000).fit(digits[0][:800], digits[1][:800])


@pytest.fixture
def feed(digits: tuple[Rows, NDArray[np.int64]], model: LogisticRegression) -> Feed:
    """Show named queries to a detector that knows the model's confidences on other data."""

    def feed(*, reference: bool = True, at_once: int = 7, **queries: Rows) -> list[Suspicion]:
        known = model.predict_proba(digits[0][800:1100]).max(axis=1)
        monitor = QueryMonitor(known if reference else None)
        for name, rows in queries.items():
            for i in range(0, len(rows), at_once):
                part = rows[i : i + at_once]
                predictions = snap(model.predict_proba(part))
                monitor.watch(name, part.reshape(-1, 1, 8, 8), predictions, predictions.units)
        return monitor.scores()

    return feed


def jacobian_queries(model: LogisticRegression, seeds: Rows) -> Rows:
    """JBDA: each round steps from every query along the sign of the gradient of its label."""
    queries, rounds = seeds, [seeds]
    for _ in range(4):
        step = 0.1 * np.sign(model.coef_[model.predict(queries)]).astype(np.float32)
        rounds.append(np.clip(queries + step, 0, 1))
        queries = np.concatenate([queries, rounds[-1]])
    return np.concatenate(rounds)


def test_ordinary_traffic_and_thieves(
    feed: Feed, digits: tuple[Rows, NDArray[np.int64]], model: LogisticRegression
) -> None:
    x = digits[0]
    scores = feed(
        honest=x[1100:1450],
        other=x[1450:],
        twice=np.concatenate([x[1100:1300], x[1100:1300]]),
        few=x[1100:1120],
        jbda=jacobian_queries(model, x[:30]),
        upside_down=x[:400].reshape(-1, 8, 8)[:, ::-1].reshape(-1, 64) / 2,
    )
    assert {score.principal: score.verdict for score in scores} == {
        "few": "inconclusive (too few queries)",
        "honest": "looks like ordinary traffic",
        "jbda": "unusual",
        "other": "looks like ordinary traffic",
        "twice": "looks like ordinary traffic",
        "upside_down": "unusual",
    }
    by_name = {score.principal: score for score in scores}
    assert by_name["jbda"].normality is not None
    assert by_name["jbda"].normality < query_monitor.NORMAL
    assert by_name["upside_down"].outlying is not None
    assert by_name["upside_down"].outlying > 0.5
    assert by_name["few"].score is None


def test_without_a_reference_the_distances_alone_speak(
    feed: Feed, digits: tuple[Rows, NDArray[np.int64]], model: LogisticRegression
) -> None:
    honest, jbda = feed(reference=False, honest=digits[0][1100:1400], jbda=jacobian_queries(model, digits[0][:30]))
    assert honest.outlying is None
    assert (honest.verdict, jbda.verdict) == ("not assessed (no reference)", "unusual")


def test_batches_and_repetition_change_nothing(feed: Feed, digits: tuple[Rows, NDArray[np.int64]]) -> None:
    rows = digits[0][1100:1400]
    one = feed(somebody=rows, at_once=1)
    assert one == feed(somebody=rows, at_once=64) == feed(somebody=rows, at_once=1)
    assert one[0].queries == 300


def test_distances_are_those_to_the_nearest_earlier_query_of_the_class() -> None:
    random = np.random.default_rng(3)
    rows = random.random((200, 50), dtype=np.float32)
    predictions = snap(random.dirichlet(np.ones(3), 200))
    monitor = QueryMonitor()
    monitor.watch("somebody", rows, predictions, predictions.units)
    apart = cdist(rows, rows)
    wanted = []
    for i, label in enumerate(predictions.labels):
        earlier = [apart[i, j] for j in range(i) if predictions.labels[j] == label]
        wanted += [min(earlier)] if earlier else []
    np.testing.assert_allclose(monitor._watched["somebody"].recent()[0], wanted, rtol=1e-5)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_monitor, "PRINCIPALS", 4)
    monitor = QueryMonitor()
    random = np.random.default_rng(0)
    for i in range(9):
        predictions = snap(random.dirichlet(np.ones(3), 1500))
        monitor.watch(f"p{i}", random.random((1500, 300), dtype=np.float32), predictions, predictions.units)
    scores = monitor.scores()
    assert [score.principal for score in scores] == ["p5", "p6", "p7", "p8"]  # the longest silent were forgotten
    assert all(score.queries == 1500 for score in scores)
    kept = monitor._watched["p8"]
    assert kept.points.nbytes + kept.tops.nbytes + kept.distances.nbytes + kept.labels.nbytes < 1 << 18


def test_only_aggregates_are_told(feed: Feed, digits: tuple[Rows, NDArray[np.int64]]) -> None:
    (score,) = feed(somebody=digits[0][1100:1400])
    told = asdict(score)
    assert set(told) == {field.name for field in fields(Suspicion)}
    for name in ("normality", "outlying", "score"):
        assert told[name] == round(told[name], 2)


def test_a_constant_distance_is_unusual() -> None:
    monitor = QueryMonitor()
    rows = np.arange(300, dtype=np.float32)[:, None]
    predictions = snap(np.tile([0.75, 0.25], (300, 1)))
    monitor.watch("grid", rows, predictions, predictions.units)
    assert monitor.scores()[0].verdict == "unusual"


def test_a_reference_is_a_list_of_confidences() -> None:
    with pytest.raises(InputError, match="reference"):
        QueryMonitor(np.ones(3))
