"""The operator's dashboard: what it tells, to whom, and how it looks and changes in a real browser."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi import FastAPI

from browser import chromium
from guard.gateway.gateways import Running, small_service
from guard.gateway.processes import Gateway, question, settings
from modelkeep.core.errors import GuardError, StoreUnavailable
from modelkeep.guard.gateway.dashboard import mount
from modelkeep.guard.gateway.overview import Fidelity
from modelkeep.guard.gateway.principals import add_key
from modelkeep.guard.gateway.query_monitor import QueryMonitor
from modelkeep.guard.gateway.traffic import Traffic
from modelkeep.guard.store.sqlite import SqliteStore
from modelkeep.guard.store.store import Principal, Store
from processes import PATIENCE

CURVE = {"queries": [100, 1000], "fidelity": [0.4, 0.8]}


class Dashboard:
    """A gateway that listens, with two principals and the operator."""

    def __init__(self, folder: Path, curve: Path | None) -> None:
        service = small_service(folder, open=False)
        service.monitor = QueryMonitor()
        self.running = Running(service)
        app = self.running._config.app
        assert isinstance(app, FastAPI)
        mount(app, service, curve)
        store = service.gate.store
        self.operator = add_key(store, Principal("operator", None, None))
        self.keys = {
            "alice": add_key(store, Principal("alice", 1000, None)),
            "bob": add_key(store, Principal("bob", 3, None)),
        }

    def ask(self, who: str, rows: int, seed: int = 0) -> int:
        x = np.random.default_rng(seed).random((rows, 2, 3)) * 6 - 3
        tensor = {"name": "input", "datatype": "FP32", "shape": list(x.shape), "data": x.ravel().tolist()}
        return httpx.post(
            f"{self.running.url}/v2/models/small/infer",
            json={"inputs": [tensor]},
            headers={"Authorization": f"Bearer {self.keys[who]}"},
            timeout=PATIENCE,  # the first query may have to compile the guard
        ).status_code

    def data(self) -> dict[str, Any]:
        answer = httpx.get(f"{self.running.url}/dashboard/data", headers={"Authorization": f"Bearer {self.operator}"})
        answer.raise_for_status()
        told = answer.json()
        assert isinstance(told, dict)
        return told


@pytest.fixture
def dashboard(tmp_path: Path) -> Iterator[Dashboard]:
    curve = tmp_path / "curve.json"
    curve.write_text(json.dumps(CURVE))
    started = Dashboard(tmp_path, curve)
    started.running.start()
    yield started
    started.running.stop()


def test_counts_are_those_of_the_traffic(dashboard: Dashboard) -> None:
    for i in range(5):
        assert dashboard.ask("alice", 110, seed=i) == 200
    assert dashboard.ask("bob", 2) == 200
    assert dashboard.ask("bob", 2) == 429
    told = dashboard.data()
    assert told["answered"] == sum(told["traffic"]["per_second"]) == 552
    assert told["refused"] == {"429": 1}
    assert sum(told["distortion"]["counts"]) == 552
    assert sum(told["centroids"]["per_class"]) == told["centroids"]["misses"] > 0
    assert told["clean"]["rows"] >= told["centroids"]["misses"]  # of the paper's form, without a secret
    assert told["clean"]["share"] == told["clean"]["rows"] / 552
    assert told["latency_ms"]["p50"] <= told["latency_ms"]["p99"]
    alice, bob = told["principals"]
    assert sum(one["spent"] for one in told["principals"]) == 552, "a lease that is not spent is no query"
    assert (alice["name"], alice["left"], alice["refused"]) == ("alice", 1000 - alice["spent"], 0)
    assert 0 <= alice["rate"] <= 55  # all of it, unless the machine is so slow that the first queries are long ago
    assert (bob["name"], bob["refused"]) == ("bob", 1)
    assert alice["fidelity"]["value"] == pytest.approx(0.4 + 0.4 * (alice["spent"] - 100) / 900)
    assert bob["fidelity"]["words"] == "less than 40%"
    assert alice["suspicion"]["queries"] == 550
    assert bob["suspicion"]["verdict"] == "inconclusive (too few queries)"
    assert [one["name"] for one in told["principals"]] == ["alice", "bob"]  # the operator asks no model


def test_the_served_gateway_has_it(tmp_path: Path) -> None:
    """`modelkeep guard serve` with a curve in its settings."""
    config = settings(tmp_path)
    (tmp_path / "curve.json").write_text(json.dumps(CURVE))
    config.write_text(config.read_text() + '[dashboard]\nfidelity_curve = "curve.json"\n')
    store = SqliteStore(tmp_path / "state.sqlite3")
    operator = add_key(store, Principal("operator", None, None))
    alice = add_key(store, Principal("alice", None, None))
    store.close()
    with Gateway(config) as gateway:
        body = question([[0.1, 0.2, 0.3, 0.4]])
        url = f"{gateway.url}/v2/models/slow/infer"
        assert (
            httpx.post(url, json=body, headers={"Authorization": f"Bearer {alice}"}, timeout=PATIENCE).status_code
            == 200
        )
        told = httpx.get(
            f"{gateway.url}/dashboard/data", headers={"Authorization": f"Bearer {operator}"}, timeout=PATIENCE
        )
        assert told.json()["answered"] == 1
        assert told.json()["thief"]["words"] == "less than 40%"
        assert told.json()["principals"][0]["suspicion"]["queries"] == 1


@pytest.mark.parametrize("path", ["/dashboard", "/dashboard/data"])
def test_only_the_operator_sees_it(dashboard: Dashboard, path: str) -> None:
    url = dashboard.running.url + path
    for headers in ({}, {"Authorization": f"Bearer {dashboard.keys['alice']}"}, {"Authorization": "Bearer mk_no"}):
        refused = httpx.get(url, headers=headers)
        assert refused.status_code == 401
        assert refused.headers["WWW-Authenticate"].startswith("Basic")
        assert "alice" not in refused.text
    password = base64.b64encode(f"operator:{dashboard.operator}".encode()).decode()
    shown = httpx.get(url, headers={"Authorization": f"Basic {password}"})
    assert shown.status_code == 200
    assert shown.headers["Cache-Control"] == "no-store"


def test_the_page_needs_nothing_else_and_works_without_scripts(dashboard: Dashboard) -> None:
    dashboard.ask("alice", 12)
    shown = httpx.get(f"{dashboard.running.url}/dashboard", headers={"Authorization": f"Bearer {dashboard.operator}"})
    nonce = re.findall(r'<script nonce="([^"]+)"', shown.text)[0]
    assert f"script-src 'nonce-{nonce}'" in shown.headers["Content-Security-Policy"]
    assert "default-src 'none'" in shown.headers["Content-Security-Policy"]
    assert not re.findall(r"(?:src=|url\(|@import|style=)", shown.text)
    assert '<div class="value" id="answered">12</div>' in shown.text
    assert "<td>alice</td>" in re.sub(r"\s+(?=</td>)", "", shown.text)


def test_names_are_escaped(dashboard: Dashboard) -> None:
    add_key(dashboard.running.service.gate.store, Principal("<script>alert(1)</script>", 5, None))
    shown = httpx.get(f"{dashboard.running.url}/dashboard", headers={"Authorization": f"Bearer {dashboard.operator}"})
    assert "<script>alert" not in shown.text
    assert "&lt;script&gt;alert" in shown.text


def test_without_a_curve_it_says_what_to_run(tmp_path: Path) -> None:
    started = Dashboard(tmp_path, None)
    started.running.start()
    try:
        shown = httpx.get(f"{started.running.url}/dashboard", headers={"Authorization": f"Bearer {started.operator}"})
        assert ">unknown</div>" in shown.text
        assert "modelkeep extract" in shown.text
        assert started.data()["thief"] is None
    finally:
        started.running.stop()


def test_a_store_that_is_away_is_said(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(self: Store) -> dict[str, int]:
        raise StoreUnavailable("gone")

    dashboard.data()  # the operator's key is believed for a while
    monkeypatch.setattr(type(dashboard.running.service.gate.store), "spent", away)
    told = dashboard.data()
    assert told["store"].startswith("away")
    shown = httpx.get(f"{dashboard.running.url}/dashboard", headers={"Authorization": f"Bearer {dashboard.operator}"})
    assert "The store is away" in shown.text


def test_numbers_appear_and_change_in_a_browser(dashboard: Dashboard, tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    with chromium(tmp_path / "profile") as browser:

        def answered() -> str:
            return str(browser.execute_script("return document.getElementById('answered').textContent"))

        address = dashboard.running.url.replace("://", f"://operator:{dashboard.operator}@")
        browser.get(f"{address}/dashboard")
        assert browser.title == "small · ModelKeep guard"
        assert answered() == "0"
        for i in range(3):
            assert dashboard.ask("alice", 50, seed=i) == 200
        WebDriverWait(browser, 20).until(lambda _: answered() == "150")
        assert "alice" in browser.find_element(By.ID, "principals").text
        assert browser.find_elements(By.CSS_SELECTOR, "svg rect.answered")
        assert browser.execute_script("return document.documentElement.scrollWidth - window.innerWidth") <= 0
        assert browser.execute_script("return getComputedStyle(document.querySelector('.card')).borderRadius") != "0px"
        errors = [line["message"] for line in browser.get_log("browser") if "favicon" not in line["message"]]
        assert not errors
        browser.save_screenshot(str(tmp_path / "dashboard.png"))


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"queries": [1]}', '{"queries": [2, 1], "fidelity": [0, 1]}', '{"queries": [1], "fidelity": [7]}'],
    ids=["empty", "list", "no-fidelity", "falling", "above-one"],
)
def test_what_is_no_curve_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "curve.json"
    path.write_text(text)
    with pytest.raises(GuardError, match=r"is not a fidelity curve"):
        Fidelity.read(path)


def test_a_curve_is_read_between_its_points_and_not_beyond() -> None:
    curve = Fidelity((100, 1000), (0.4, 0.8))
    assert curve.after(0)["words"] == "nothing yet"
    assert curve.after(550) == {"value": pytest.approx(0.6), "words": "60%"}
    assert curve.after(10**6)["words"] == "80% or more (not measured so far)"
    with pytest.raises(GuardError, match="cannot be read"):
        Fidelity.read(Path("/nowhere/curve.json"))


def test_traffic_forgets_old_seconds() -> None:
    now = [1000.0]
    traffic = Traffic(clock=lambda: now[0])
    traffic.centroids = lambda: 7
    traffic.count_answer("alice", 4, 0.001)
    traffic.count_refusal("alice", 429)
    assert traffic.rows.until(1000)[-1] == 4
    assert list(traffic.growth) == [(1000, 7)]
    now[0] = 1400.0
    assert sum(traffic.rows.until(1400)) == sum(traffic.refusals.until(1400)) == 0
    traffic.count_answer("alice", 1, 0.002)
    assert sum(traffic.askers["alice"].lately.until(1400)) == 1
    assert traffic.askers["alice"].rows == 5
