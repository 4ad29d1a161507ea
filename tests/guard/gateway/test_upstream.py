"""An upstream is believed in nothing: what it says is checked, and what is wrong stays inside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import orjson
import pytest

from guard.gateway.gateways import CLASSES, SHAPE, running, small_service
from modelkeep.core.errors import PredictionError
from modelkeep.guard.gateway.backend import Probabilities, softmax
from modelkeep.guard.gateway.caller import NotReached, Reply
from modelkeep.guard.gateway.upstream import UpstreamBackend
from modelkeep.guard.protocol.tensors import TensorSpec
from modelkeep.guard.refusals import Unavailable

ROWS = np.linspace(0, 1, 12, dtype=np.float32).reshape(2, *SHAPE)
LOGITS = np.array([[1, 2, 3, 4], [0.5, 0, -1, 0]], np.float32)
GOOD: dict[str, Any] = {"name": "y", "shape": [2, 4], "datatype": "FP32", "data": LOGITS.ravel().tolist()}
Handler = Callable[[httpx.Request], httpx.Response]


class Network:
    """Calls to a function instead of a server."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler

    async def ask(self, method: str, path: str, content: bytes = b"", headers: Any = None) -> Reply:
        said = self.handler(httpx.Request(method, f"http://up{path}", headers=headers, content=content))
        return Reply(said.status_code, {name.lower(): value for name, value in said.headers.raw}, said.content)

    async def close(self) -> None:
        pass


def backend(handler: Handler, gives: Any = "logits") -> UpstreamBackend:
    made = UpstreamBackend("http://up/", "m", input="x", output=TensorSpec("y", "FP32", (4,)), gives=gives)
    made._caller = Network(handler)  # type: ignore[assignment]
    return made


def ask(handler: Handler, gives: str = "logits") -> Probabilities:
    async def asked() -> Probabilities:
        upstream = backend(handler, gives)
        try:
            return await upstream.predict(ROWS)
        finally:
            await upstream.close()

    return asyncio.run(asked())


def says(
    answer: bytes | dict[str, Any], *, binary: bool = False, status: int = 200, length: str | None = None
) -> Handler:
    headers = {} if length is None else {"Inference-Header-Content-Length": length}
    content = answer if isinstance(answer, bytes) else orjson.dumps(answer)

    def handler(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v2":
            return httpx.Response(200, json={"extensions": ["binary_tensor_data"] if binary else []})
        return httpx.Response(status, content=content, headers=headers)

    return handler


def test_it_asks_for_the_one_output_only_and_in_binary_where_it_can() -> None:
    asked: list[httpx.Request] = []

    def handler(request: httpx.Request, binary: bool) -> httpx.Response:
        asked.append(request)
        return says({"outputs": [GOOD]}, binary=binary)(request)

    assert (ask(lambda request: handler(request, False)) == softmax(LOGITS)).all()
    told = orjson.loads(asked[-1].content)
    assert told["outputs"] == [{"name": "y"}]
    assert (np.array(told["inputs"][0]["data"], np.float32) == ROWS.ravel()).all()
    ask(lambda request: handler(request, True))
    end = int(asked[-1].headers["Inference-Header-Content-Length"])
    assert orjson.loads(asked[-1].content[:end])["outputs"] == [{"name": "y", "parameters": {"binary_data": True}}]
    assert asked[-1].content[end:] == ROWS.tobytes()


def test_a_binary_answer_is_read_past_other_tensors() -> None:
    outputs = [
        {"name": "z", "shape": [3], "datatype": "UINT8", "parameters": {"binary_data_size": 3}},
        {"name": "y", "shape": [2, 4], "datatype": "FP32", "parameters": {"binary_data_size": 32}},
    ]
    header = orjson.dumps({"outputs": outputs})
    assert (ask(says(header + b"abc" + LOGITS.tobytes(), length=str(len(header)))) == softmax(LOGITS)).all()


def test_probabilities_are_taken_as_they_are() -> None:
    probabilities = softmax(LOGITS).astype(np.float64)
    good = {**GOOD, "datatype": "FP64", "data": probabilities.ravel().tolist()}
    assert (ask(says({"outputs": [good]}), "probabilities") == probabilities).all()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"<html>", id="html"),
        pytest.param(b"[]", id="list"),
        pytest.param({}, id="no outputs"),
        pytest.param({"outputs": {}}, id="outputs are none"),
        pytest.param({"outputs": None}, id="outputs null"),
        pytest.param({"outputs": [None]}, id="output null"),
        pytest.param({"outputs": [{**GOOD, "name": "z"}]}, id="other name"),
        pytest.param({"outputs": [{**GOOD, "shape": [1, 8]}]}, id="other shape"),
        pytest.param({"outputs": [{**GOOD, "shape": [2, 3], "data": [0] * 6}]}, id="other classes"),
        pytest.param({"outputs": [{**GOOD, "datatype": "INT64"}]}, id="other type"),
        pytest.param({"outputs": [{**GOOD, "datatype": ["FP32"]}]}, id="type is none"),
        pytest.param({"outputs": [{**GOOD, "data": [0] * 7}]}, id="too few"),
        pytest.param({"outputs": [{**GOOD, "data": [1e39] * 8}]}, id="too much"),
        pytest.param({"outputs": [{**GOOD, "data": [None] * 8}]}, id="null"),
        pytest.param({"outputs": [{**GOOD, "parameters": {"binary_data_size": 32}}]}, id="no binary data"),
        pytest.param({"outputs": [{**GOOD, "parameters": {"binary_data_size": "x"}}]}, id="size is none"),
        pytest.param({"outputs": [{**GOOD, "parameters": 7}]}, id="parameters are none"),
    ],
)
def test_what_is_no_answer_is_an_error(answer: bytes | dict[str, Any]) -> None:
    with pytest.raises(PredictionError):
        ask(says(answer))


def test_nan_in_binary_data_is_an_error() -> None:
    output = {"name": "y", "shape": [2, 4], "datatype": "FP32", "parameters": {"binary_data_size": 32}}
    header = orjson.dumps({"outputs": [output]})
    with pytest.raises(PredictionError, match="NaN"):
        ask(says(header + np.full(8, np.nan, np.float32).tobytes(), length=str(len(header))))
    with pytest.raises(PredictionError):
        ask(says(header + bytes(32), length="x"))


@pytest.mark.parametrize("failure", [NotReached("refused"), NotReached("slow")], ids=["down", "slow"])
def test_a_server_that_cannot_be_reached_is_unavailable(failure: Exception) -> None:
    def handler(_: httpx.Request) -> httpx.Response:
        raise failure

    with pytest.raises(Unavailable):
        ask(handler)
    assert not asyncio.run(backend(handler).ready())


@pytest.mark.parametrize("status", [400, 404, 500, 302])
def test_an_error_of_the_server_is_unavailable_and_its_text_stays_inside(status: int) -> None:
    with pytest.raises(Unavailable) as refusal:
        ask(says(b'{"error": "0.875"}', status=status))
    assert "875" not in refusal.value.message


def test_a_gateway_in_front_of_a_gateway_gives_its_answers(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whole, over real sockets: the inner one plays the upstream, in binary."""
    with running(small_service(tmp_path_factory.mktemp("inner"))) as inner:
        output = TensorSpec("probabilities", "FP32", (CLASSES,))
        upstream = UpstreamBackend(inner.url, "small", input="input", output=output, version="1")
        with running(small_service(tmp_path_factory.mktemp("outer"), upstream)) as outer:
            tensor = {"name": "input", "shape": [2, *SHAPE], "datatype": "FP32", "data": ROWS.ravel().tolist()}
            answers = [
                httpx.post(f"{url}/v2/models/small/infer", json={"inputs": [tensor]}).json()["outputs"][0]
                for url in (inner.url, outer.url)
            ]
            assert answers[0] == answers[1]
            assert httpx.get(f"{outer.url}/v2/health/ready").status_code == 200
            inner.service.draining = True
            assert httpx.get(f"{outer.url}/v2/health/ready").status_code == 503


def test_a_dead_port_and_a_server_that_speaks_no_http_are_unavailable() -> None:
    async def asked() -> None:
        async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"220 mail.example.org ESMTP\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(babble, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        for close in (False, True):
            if close:
                server.close()
                await server.wait_closed()
            output = TensorSpec("y", "FP32", (4,))
            upstream = UpstreamBackend(f"http://127.0.0.1:{port}", "m", input="x", output=output, timeout=5)
            with pytest.raises(Unavailable):
                await upstream.predict(ROWS)
            assert not await upstream.ready()
            await upstream.close()

    asyncio.run(asked())
