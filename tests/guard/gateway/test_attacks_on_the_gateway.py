"""Attacks on the gateway's ports. Each was an exploit, or is one that held: no crash, no 5xx, no word too many."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import grpc
import httpx
import numpy as np
import pytest

from guard.gateway.gateways import Running, running, small_service
from modelkeep.core.errors import GuardError, InputError
from modelkeep.guard.gateway import connection, journal
from modelkeep.guard.gateway.assembly import build_service, make_plan
from modelkeep.guard.gateway.config import parse_config
from modelkeep.guard.gateway.principals import Principals, add_key
from modelkeep.guard.refusals import NotOperator
from modelkeep.guard.store.sqlite import SqliteStore
from modelkeep.guard.store.store import Event, Principal
from processes import PATIENCE

INFER = "/v2/models/small/infer"
HEAD = f"POST {INFER} HTTP/1.1\r\nHost: gateway\r\n".encode()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(small_service(tmp_path_factory.mktemp("gateway"))) as gateway:
        yield gateway


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Running]:
    with running(small_service(tmp_path, open=False)) as gateway:
        yield gateway


def said(port: int, sent: bytes, *, seconds: float = 10.0) -> bytes:
    """What comes back until the other side closes; it must, within `seconds`."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as client:
        try:
            client.sendall(sent)
            return b"".join(iter(lambda: client.recv(1 << 16), b""))
        except (BrokenPipeError, ConnectionResetError):
            return b""


def alive(gateway: Running) -> bool:
    return httpx.get(f"{gateway.url}/v2/health/live", timeout=PATIENCE).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        '{"inputs": %s}',
        '{"id": %s}',
        '{"parameters": %s}',
        '{"inputs": [{"name": "input", "datatype": %s}]}',
        '{"inputs": [{"name": "input", "datatype": "FP32", "shape": %s}]}',
        '{"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 2, 3], "data": %s}]}',
    ],
    ids=["inputs", "id", "parameters", "datatype", "shape", "data"],
)
def test_lists_as_deep_as_json_goes_are_malformed(gateway: Running, body: str) -> None:
    for depth in (900, 1015, 5000):
        answer = httpx.post(gateway.url + INFER, content=body % ("[" * depth + "]" * depth), timeout=PATIENCE)
        assert (answer.status_code, len(answer.text) < 400) == (400, True)


def test_headers_without_end_are_not_kept(gateway: Running) -> None:
    sent = HEAD + b"".join(b"X-%d: %s\r\n" % (i, b"a" * 4000) for i in range(200))
    said(gateway.rest, sent)  # it closes, though the headers never end
    assert alive(gateway)


@pytest.mark.parametrize(
    "sent",
    [b"", HEAD, HEAD + b"Content-Length: 100\r\n\r\n{"],
    ids=["nothing", "half of a head", "half of a body"],
)
def test_who_is_too_slow_is_left(gateway: Running, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 0.2)
    said(gateway.rest, sent)
    monkeypatch.undo()
    assert alive(gateway)


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Content-Length: 2\r\nContent-Length: 3\r\n",
        b"Content-Length: -2\r\n",
        b"Content-Length: 99999999999999999999999\r\n",
        b"Content-Length: 2\r\nAuthorization: Bearer \0\r\n",
        b"Content-Length: 2\r\nAuthorization:\r\n Bearer folded\r\n",
    ],
    ids=["two lengths", "odd encoding", "length twice", "negative", "huge", "nul", "folded"],
)
def test_what_two_servers_could_read_in_two_ways_is_refused(gateway: Running, headers: bytes) -> None:
    assert said(gateway.rest, HEAD + headers + b"\r\n{}").startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "value", [b"Basic \xff\xfe", b"Basic Og==", b"Bearer \xe9", b"Basic !", b"Basic /w==", b"Digest x", b"bearer"]
)
def test_no_header_is_a_key_by_accident(locked: Running, value: bytes) -> None:
    answer = httpx.post(locked.url + INFER, headers=[(b"Authorization", value)], content=b"{}", timeout=PATIENCE)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_no_header_is_the_operators_key_by_accident(tmp_path: Path) -> None:
    principals = Principals(small_service(tmp_path).gate.store)
    with pytest.raises(NotOperator):
        asyncio.run(principals.operator("Basic \xff"))


def test_grpc_tells_nothing_of_what_nobody_foresaw(gateway: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails() -> bool:
        raise RuntimeError("secret")

    monkeypatch.setattr(gateway.service.backend, "ready", fails)
    with grpc.insecure_channel(f"127.0.0.1:{gateway.grpc}") as channel, pytest.raises(grpc.RpcError) as error:
        channel.unary_unary("/inference.GRPCInferenceService/ServerReady", bytes, bytes)(b"", timeout=PATIENCE)
    assert isinstance(error.value, grpc.Call)
    assert error.value.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in str(error.value.details())


def test_a_small_message_that_grows_large_is_refused(locked: Running) -> None:
    """Zeros compress a thousandfold, and gRPC inflates them before any key is looked at."""
    with grpc.insecure_channel(f"127.0.0.1:{locked.grpc}", compression=grpc.Compression.Gzip) as channel:
        infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer", bytes, bytes)
        with pytest.raises(grpc.RpcError) as error:
            infer(bytes(locked.service.most_bytes * 2), timeout=PATIENCE)
    assert isinstance(error.value, grpc.Call)
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_random_bytes_on_the_grpc_port_harm_nobody(gateway: Running) -> None:
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    random = np.random.default_rng(0)
    for start in (b"", preface, preface + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])):
        for _ in range(10):
            with socket.create_connection(("127.0.0.1", gateway.grpc), timeout=PATIENCE) as client:
                client.sendall(start + random.bytes(3000))
    with grpc.insecure_channel(f"127.0.0.1:{gateway.grpc}") as channel:
        channel.unary_unary("/inference.GRPCInferenceService/ServerLive", bytes, bytes)(b"", timeout=PATIENCE)


def test_the_audit_log_goes_on_after_a_write_that_was_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task that writes it ended, and nobody was told."""
    store = SqliteStore(tmp_path / "state.sqlite3")
    refusals = iter([GuardError("No."), GuardError("No.")])
    written = store.write

    def write(events: Sequence[Event]) -> None:
        if (refusal := next(refusals, None)) is not None:
            raise refusal
        written(events)

    monkeypatch.setattr(store, "write", write)
    monkeypatch.setattr(journal, "EVERY", 0.01)

    async def life() -> None:
        log = journal.Journal(store)
        log.start()
        log.count("ann", "answered", 3)
        for _ in range(500):
            if store.events():
                break
            await asyncio.sleep(0.02)
        await log.close()

    asyncio.run(life())
    assert [(event.principal, event.action) for event in store.events()] == [("ann", "answered")]


FACTORY = """
import torch
from torch import nn

SCALE = 1

class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(3))

    def forward(self, x):
        return SCALE * x @ self.weight
"""


def test_other_code_around_the_same_weights_is_not_served_as_the_same_model(tmp_path: Path) -> None:
    """The weights are the same, so the epoch is; the answers would be others."""
    (tmp_path / "scaled_factory.py").write_text(FACTORY)
    store = SqliteStore(tmp_path / "state.sqlite3")

    def started(version: str) -> str:
        model = {"path": "scaled_factory:Scaled", "version": version, "input_shape": [3], "classes": 3}
        plan = make_plan(parse_config({"model": model}, "guard.toml", tmp_path))

        async def start() -> str:
            service = await build_service(plan, store)
            await service.backend.close()
            return service.gate.policy.epoch

        return asyncio.run(start())

    assert started("1") == started("1")
    sys.modules["scaled_factory"].SCALE = 2  # type: ignore[attr-defined]
    with pytest.raises(GuardError, match="its code or the upstream's model changed"):
        started("1")
    started("2")


@pytest.mark.parametrize(
    "name",
    ["", "operator ", " ann", "a\nb", "\u202ebob", "x" * 101],
    ids=["no", "end", "start", "line", "turn", "long"],
)
def test_no_name_lies_in_a_log(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="printable name"):
        add_key(SqliteStore(tmp_path / "state.sqlite3"), Principal(name, None, None))
