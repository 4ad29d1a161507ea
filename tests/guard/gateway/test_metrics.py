"""Metrics and the audit log: counts are exact, read back by Prometheus' own parser, and tell about no single query."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from modelkeep.core.errors import StoreUnavailable
from modelkeep.guard.defences.modelguard_s import ModelGuardS
from modelkeep.guard.gate import Gate
from modelkeep.guard.gateway import journal as module
from modelkeep.guard.gateway.journal import Journal
from modelkeep.guard.gateway.metrics import DISTORTIONS, Metrics
from modelkeep.guard.grid import ONE
from modelkeep.guard.policy import Policy
from modelkeep.guard.store.sqlite import SqliteStore
from modelkeep.guard.store.store import Event


def samples(metrics: Metrics) -> dict[tuple[str, str], float]:
    page = metrics.render().decode()
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_what_happened_is_counted() -> None:
    metrics = Metrics(epoch="e0", model="digits")
    metrics.count_answer(3, np.array([0, ONE // 2, ONE]), seconds=0.003)
    metrics.count_answer(1, np.array([5]), seconds=0.7)
    metrics.count_refusal(429)
    metrics.count_refusal(429)
    metrics.count_refusal(401)
    metrics.observe_model(0.002)
    metrics.observe_store(0.01)
    found = samples(metrics)
    assert found["modelkeep_queries_total", ""] == 2
    assert found["modelkeep_rows_total", ""] == 4
    assert found["modelkeep_clean_rows_total", ""] == metrics.clean_rows == 1
    assert found["modelkeep_refusals_total", "429"] == 2
    assert found["modelkeep_refusals_total", "401"] == 1
    assert found["modelkeep_request_seconds_bucket", "0.005"] == 1
    assert found["modelkeep_request_seconds_sum", ""] == pytest.approx(0.703)
    assert found["modelkeep_backend_seconds_count", ""] == 1
    assert found["modelkeep_store_seconds_count", ""] == 1
    assert "e0" in metrics.render().decode()


@given(st.lists(st.lists(st.integers(0, 2 * ONE), min_size=1, max_size=5), max_size=8))
def test_the_histogram_of_distortions_is_the_obvious_one(requests: list[list[int]]) -> None:
    metrics = Metrics(epoch="e", model="m")
    for request in requests:
        metrics.count_answer(len(request), np.array(request, dtype=np.int64), 0.001)
    everything = [units for request in requests for units in request]
    found = samples(metrics)
    for edge in DISTORTIONS:
        assert found["modelkeep_distortion_bucket", str(edge)] == sum(units <= int(edge * ONE) for units in everything)
    assert found["modelkeep_distortion_count", ""] == len(everything)
    assert found["modelkeep_distortion_sum", ""] == pytest.approx(sum(everything) / ONE)


def test_centroids_and_misses_are_those_of_the_gate(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.sqlite3")
    policy = Policy(ModelGuardS(0.1), "m", 3)
    gate = Gate(policy, store)
    metrics = Metrics(epoch=policy.epoch, model="m", gate=gate)
    raw = np.array([[0.8, 0.1, 0.1], [0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.8, 0.1, 0.1]])
    gate.answer(raw, [bytes([i]) * 32 for i in (0, 1, 2, 0)])
    found = samples(metrics)
    assert [found["modelkeep_centroids", str(label)] for label in range(3)] == [2, 1, 0]
    assert found["modelkeep_misses_total", ""] == 3
    store.close()


def test_two_gateways_in_one_process_do_not_mix() -> None:
    one, other = Metrics(epoch="a", model="m"), Metrics(epoch="b", model="m")
    one.count_answer(1, np.array([0]), 0.1)
    assert samples(other)["modelkeep_queries_total", ""] == 0


class Away(SqliteStore):
    """A store that is away for a while."""

    away = False

    def write(self, events: object) -> None:
        if self.away:
            raise StoreUnavailable("Gone.")
        super().write(events)  # type: ignore[arg-type]


def logged(store: SqliteStore) -> list[tuple[str, str, dict[str, object]]]:
    return [(event.principal, event.action, json.loads(event.detail)) for event in reversed(store.events())]


def test_a_flood_makes_one_line_and_nothing_is_lost_while_the_store_is_away(tmp_path: Path) -> None:
    store = Away(tmp_path / "s.sqlite3")

    async def happen() -> None:
        journal = Journal(store)
        journal.note("gateway", "start", model="m")
        for _ in range(1000):
            journal.count("alice", "answered", 2)
            journal.count("nobody", "refused 401", 0)
        store.away = True
        await journal.flush()
        journal.count("alice", "answered", 1)
        store.away = False
        await journal.close()

    asyncio.run(happen())
    assert logged(store) == [
        ("gateway", "start", {"model": "m"}),
        ("alice", "answered", {"requests": 1000, "rows": 2000}),
        ("nobody", "refused 401", {"requests": 1000, "rows": 0}),
        ("alice", "answered", {"requests": 1, "rows": 1}),
    ]
    store.close()


def test_the_log_is_written_in_the_background_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Away(tmp_path / "s.sqlite3")
    monkeypatch.setattr(module, "EVERY", 0.01)
    monkeypatch.setattr(module, "MOST", 3)

    async def happen() -> list[Event]:
        journal = Journal(store)
        journal.start()
        store.away = True
        for number in range(10):
            journal.note("gateway", f"event {number}")
        await asyncio.sleep(0.05)
        store.away = False
        for _ in range(500):
            if store.events():
                break
            await asyncio.sleep(0.01)
        await journal.close()
        return store.events()

    assert [event.action for event in asyncio.run(happen())] == ["event 9", "event 8", "event 7"]
    store.close()
