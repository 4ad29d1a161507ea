"""REST: the protocol's routes, what is refused and how, and that nothing unguarded leaves."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from guard.gateway.gateways import CLASSES, SHAPE, Running, running, small_model, small_service
from modelkeep.core.errors import StoreUnavailable
from modelkeep.guard.gateway.backend import LocalBackend, Probabilities
from modelkeep.guard.gateway.principals import add_key
from modelkeep.guard.gateway.query_monitor import QueryMonitor
from modelkeep.guard.grid import ONE, Predictions, Units, snap
from modelkeep.guard.protocol.tensors import Array
from modelkeep.guard.store.store import Principal

INFER = "/v2/models/small/infer"
ROWS = np.linspace(0, 1, 12, dtype=np.float32).reshape(2, *SHAPE)


def asked(rows: Array = ROWS, **more: object) -> dict[str, Any]:
    tensor = {"name": "input", "shape": list(rows.shape), "datatype": "FP32", "data": rows.ravel().tolist()}
    return {"inputs": [tensor], **more}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(small_service(tmp_path_factory.mktemp("gateway"))) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def client(gateway: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway.url) as client:
        yield client


@pytest.mark.parametrize("path", ["/v2/models/small", "/v2/models/small/versions/1"])
def test_the_protocols_routes_answer(client: httpx.Client, path: str) -> None:
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"ready": True}
    assert client.get("/v2").json() == client.get("/v2/").json()
    assert client.get("/v2").json()["extensions"] == ["binary_tensor_data"]
    assert client.get(f"{path}/ready").json() == {"name": "small", "ready": True}
    metadata = client.get(path).json()
    assert metadata["inputs"] == [{"name": "input", "datatype": "FP32", "shape": [-1, *SHAPE]}]
    assert metadata["outputs"] == [{"name": "probabilities", "datatype": "FP32", "shape": [-1, CLASSES]}]
    answer = client.post(f"{path}/infer", json=asked(id="7")).json()
    assert (answer["model_name"], answer["model_version"], answer["id"]) == ("small", "1", "7")


def test_answers_are_guarded_predictions(gateway: Running, client: httpx.Client) -> None:
    answer = client.post(INFER, json=asked()).json()
    assert set(answer) == {"model_name", "model_version", "outputs"}
    (output,) = answer["outputs"]
    assert set(output) == {"name", "shape", "datatype", "data"}
    units = np.array(output["data"]).reshape(2, CLASSES) * ONE
    assert (units == np.round(units)).all()
    assert (units.sum(axis=1) == ONE).all()
    clean = snap(LocalBackend(small_model())._predict(ROWS))
    assert (np.abs(units - clean.units).sum(axis=1) <= gateway.service.gate.policy.defence.epsilon * ONE).all()
    assert (units.argmax(axis=1) == clean.labels).all()


def test_binary_data_and_numbers_get_the_same_answer(client: httpx.Client) -> None:
    plain = client.post(INFER, json=asked()).json()["outputs"][0]["data"]
    tensor = {"name": "input", "shape": list(ROWS.shape), "datatype": "FP32", "parameters": {"binary_data_size": 48}}
    header = orjson.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}})
    response = client.post(
        INFER, content=header + ROWS.tobytes(), headers={"Inference-Header-Content-Length": str(len(header))}
    )
    assert response.headers["content-type"] == "application/octet-stream"
    length = int(response.headers["inference-header-content-length"])
    assert orjson.loads(response.content[:length])["outputs"][0]["parameters"] == {"binary_data_size": 32}
    assert response.content[length:] == np.array(plain, dtype=np.float32).tobytes()


@pytest.mark.parametrize(
    "wish",
    [
        pytest.param({"outputs": [{"name": "logits"}]}, id="other output"),
        pytest.param({"outputs": [{"name": "probabilities"}, {"name": "logits"}]}, id="second output"),
        pytest.param({"outputs": [{"name": "probabilities", "parameters": {"classification": 2}}]}, id="top classes"),
        pytest.param(
            {"outputs": [{"name": "probabilities", "parameters": {"shared_memory_region": "r"}}]}, id="memory"
        ),
        pytest.param({"parameters": {"sequence_id": 1}}, id="sequence"),
        pytest.param({"parameters": {"unknown": "x"}}, id="unknown"),
        pytest.param({"inputs": [*asked()["inputs"], {**asked()["inputs"][0], "name": "other"}]}, id="second input"),
        pytest.param({"inputs": [{**asked()["inputs"][0], "name": "other"}]}, id="other input"),
        pytest.param({"inputs": [{**asked()["inputs"][0], "shape": [12]}]}, id="shape"),
        pytest.param({"inputs": [{**asked()["inputs"][0], "datatype": "BYTES"}]}, id="bytes"),
    ],
)
def test_wishes_beyond_the_one_tensor_are_refused(client: httpx.Client, wish: dict[str, object]) -> None:
    response = client.post(INFER, json=asked() | wish)
    assert response.status_code == 400
    assert set(response.json()) == {"error"}


def test_errors_have_one_form(client: httpx.Client) -> None:
    for method, path, status in (
        ("GET", "/nowhere", 404),
        ("GET", "/v2/models/other", 404),
        ("GET", "/v2/models/small/versions/2", 404),
        ("GET", "/v2/models/small/versions/2/ready", 404),
        ("GET", "/v2/models/small/", 404),
        ("POST", "/v2/models/other/infer", 404),
        ("GET", INFER, 405),
        ("POST", "/v2", 405),
    ):
        response = client.request(method, path, json=asked() if method == "POST" else None)
        assert response.status_code == status, path
        assert set(response.json()) == {"error"}
        assert response.headers["content-type"] == "application/json"


def test_a_body_above_the_limit_is_refused_before_it_is_all_read(gateway: Running, client: httpx.Client) -> None:
    most = gateway.service.most_bytes
    assert client.post(INFER, content=b" " * (most + 1)).status_code == 413

    def chunks() -> Iterator[bytes]:
        for _ in range(most // 65_536 + 1):
            yield b" " * 65_536

    assert client.post(INFER, content=chunks()).status_code == 413  # nobody said how long it would be


def test_a_request_of_too_many_rows_is_refused(gateway: Running, client: httpx.Client) -> None:
    rows = np.zeros((gateway.service.most_rows + 1, *SHAPE), np.float32)
    assert client.post(INFER, json=asked(rows)).status_code == 413


def test_a_client_that_hangs_up_harms_nobody(gateway: Running, client: httpx.Client) -> None:
    with socket.create_connection(("127.0.0.1", gateway.rest)) as connection:
        connection.sendall(f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{{".encode())
    assert client.post(INFER, json=asked()).status_code == 200


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_body_makes_the_gateway_fail(client: httpx.Client, data: st.DataObject) -> None:
    body = orjson.dumps(asked(id="7", outputs=[{"name": "probabilities"}], parameters={"binary_data_output": False}))
    if data.draw(st.booleans()):
        damaged = bytearray(body)
        for _ in range(data.draw(st.integers(1, 6))):
            damaged[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
        body = bytes(damaged)
    else:
        body = data.draw(st.binary(max_size=100))
    length = data.draw(st.none() | st.integers(-1, 400).map(str))
    headers = {} if length is None else {"Inference-Header-Content-Length": length}
    response = client.post(INFER, content=body, headers=headers)
    assert response.status_code in (200, 400, 413)
    assert response.status_code == 200 or set(response.json()) == {"error"}


class Says:
    """A backend that says what it is told to, or raises it."""

    def __init__(self, answer: Probabilities | Exception) -> None:
        self.answer = answer

    async def predict(self, rows: Array) -> Probabilities:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def ready(self) -> bool:
        return False

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (np.array([[np.nan, 0.125, 0.5, 0.5]]), 502),
        (np.array([[0.875, 0.125, 0.5, 0.5]]), 502),
        (np.array([[1.125, -0.125, 0.0, 0.0]]), 502),
        (np.array([[0.875, 0.125]]), 502),
        (np.array([[0.875, 0.125, 0.0, 0.0]] * 2), 502),
        (RuntimeError("0.875"), 500),
    ],
    ids=["nan", "sum", "negative", "classes", "rows", "crash"],
)
def test_what_is_no_prediction_stays_inside(tmp_path: Path, answer: Probabilities | Exception, status: int) -> None:
    with running(small_service(tmp_path, Says(answer))) as gateway:
        response = httpx.post(gateway.url + INFER, json=asked(ROWS[:1]))
        assert response.status_code == status
        assert "875" not in response.text
        assert "125" not in response.text
        assert "Traceback" not in response.text
        assert httpx.get(f"{gateway.url}/v2/health/ready").status_code == 503


def _none(units: Array) -> Array:
    return np.full(len(units), -1)


def test_a_store_that_is_away_lets_no_new_answer_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = small_service(tmp_path)

    def away(*_: object) -> None:
        raise StoreUnavailable("the password is hunter2")

    with running(service) as gateway:
        assert httpx.post(gateway.url + INFER, json=asked(ROWS[:1])).status_code == 200
        monkeypatch.setattr(service.gate.store, "append", away)
        monkeypatch.setattr(service.gate.store, "centroids", away)
        monkeypatch.setattr(service.gate.centroids, "match", lambda units, *_: (_none(units), _none(units) == 0))
        response = httpx.post(gateway.url + INFER, json=asked(ROWS[:1]))
        assert response.status_code == 503
        assert response.headers["retry-after"] == "1"
        assert "hunter2" not in response.text


def test_only_a_known_key_is_answered_and_only_as_often_as_it_may(tmp_path: Path) -> None:
    service = small_service(tmp_path, open=False)
    key = add_key(service.principals.store, Principal("ann", queries=3, rate=None))
    with running(service) as gateway, httpx.Client(base_url=gateway.url) as client:
        assert client.get("/v2/models/small").status_code == 200
        for header in ({}, {"Authorization": "Bearer mk_nobody"}, {"Authorization": key}):
            response = client.post(INFER, content=b"not even JSON", headers=header)
            assert response.status_code == 401
            assert response.headers["www-authenticate"] == "Bearer"
        client.headers["Authorization"] = f"Bearer {key}"
        assert client.post(INFER, json=asked()).status_code == 200
        assert client.post(INFER, json=asked()).status_code == 429
        assert client.post(INFER, content=b"{").status_code == 400


def test_a_draining_gateway_answers_but_is_not_ready(tmp_path: Path) -> None:
    service = small_service(tmp_path)
    service.draining = True
    with running(service) as gateway:
        assert httpx.get(f"{gateway.url}/v2/health/ready").status_code == 503
        assert httpx.get(f"{gateway.url}/v2/models/small/ready").json() == {"name": "small", "ready": False}
        assert httpx.get(f"{gateway.url}/v2/health/live").status_code == 200
        assert httpx.post(gateway.url + INFER, json=asked()).status_code == 200


def test_the_query_monitor_sees_what_was_answered(tmp_path: Path) -> None:
    service = small_service(tmp_path)
    seen: list[tuple[str, int]] = []

    class Failing(QueryMonitor):
        def watch(self, principal: str, rows: Array, predictions: Predictions, answers: Units) -> None:
            seen.append((principal, len(answers)))
            raise RuntimeError("a monitor that fails changes no answer")

    service.monitor = Failing()
    with running(service) as gateway:
        assert httpx.post(gateway.url + INFER, json=asked()).status_code == 200
        assert httpx.post(gateway.url + INFER, json={}).status_code == 400
        assert seen == [("anonymous", 2)]
        asyncio.run(service.journal.flush())
        actions = {event.action for event in service.gate.store.events()}
        assert {"answered", "refused 400"} <= actions
        assert b'modelkeep_refusals_total{status="400"} 1.0' in service.metrics.render()
