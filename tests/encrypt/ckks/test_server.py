"""A client and a server in earnest: right answers, and an adversary on the wire who gets a sentence each time."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
import torch
import uvicorn

from digits import held_out_digits, training_digits
from encrypt.square_digits import square_digits
from modelkeep.core.errors import EncryptError, InputError
from modelkeep.encrypt.ckks.arithmetic import Arithmetic
from modelkeep.encrypt.ckks.client import Client
from modelkeep.encrypt.ckks.keys import ClientKeys
from modelkeep.encrypt.ckks.messages import pack, unpack
from modelkeep.encrypt.ckks.plan import plan_inference
from modelkeep.encrypt.ckks.scheme import to_bytes
from modelkeep.encrypt.ckks.server import make_app
from modelkeep.encrypt.ckks.service import Service
from ports import free_port
from processes import wait_until


class Wire(httpx.BaseTransport):
    """The network between client and server: keeps all that passes, and may change a request."""

    def __init__(self) -> None:
        self._below = httpx.HTTPTransport()
        self.passed: list[tuple[str, bytes]] = []
        self.change: Any = None

    def close(self) -> None:
        self._below.close()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        content = request.read()
        if self.change is not None and request.url.path.startswith("/sessions/"):
            content = self.change(content)
            request = httpx.Request(request.method, request.url, content=content)
        assert isinstance(content, bytes)
        self.passed.append((request.url.path, content))
        response = self._below.handle_request(request)
        response.read()
        response.close()
        self.passed.append(("answer", response.content))
        return response


@pytest.fixture(scope="module")
def log() -> list[str]:
    return []


@pytest.fixture(scope="module")
def service(log: list[str]) -> Iterator[Service]:
    prepared = plan_inference(square_digits(), training_digits(), packing="single")
    service = Service(prepared, sessions=2, log=log.append)
    yield service
    service.close()


@pytest.fixture(scope="module")
def port(service: Service) -> Iterator[int]:
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(make_app(service), port=port, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_until(lambda: server.started)
    yield port
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    wire = Wire()
    yield wire
    wire.close()


@pytest.fixture(scope="module")
def client(url: str, wire: Wire) -> Iterator[Client]:
    with Client(url, transport=wire, model=square_digits().fingerprint()) as client:
        yield client


def test_the_answers_are_the_models(client: Client, log: list[str]) -> None:
    x = held_out_digits().x[:2]
    answers = client.ask(x)
    assert (answers.logits - square_digits().logits(x).double()).abs().max() < 1e-4
    assert answers.labels.tolist() == square_digits().predict(x).tolist()
    assert answers.sent_bytes > 1e6
    assert "all of them ciphertexts" in str(answers)
    assert (answers.shareable(bits=4) != answers.logits).all()
    # What the server can tell of it: counts, bytes and a hash.
    assert all("bytes, sha256" in line for line in log)


@pytest.mark.parametrize(
    ("x", "says"),
    [
        (torch.full((1, 1, 8, 8), 7.0), "from 0 to 1"),
        (torch.full((1, 1, 8, 8), float("nan")), "from 0 to 1"),
        (torch.zeros(1, 64), "shape"),
    ],
)
def test_wrong_inputs_do_not_leave_the_client(client: Client, x: torch.Tensor, says: str) -> None:
    with pytest.raises(InputError, match=says):
        client.ask(x)


def test_a_changed_request_is_refused(client: Client, wire: Wire) -> None:
    def flip(content: bytes) -> bytes:
        return content[:100_000] + bytes([content[100_000] ^ 1]) + content[100_001:]

    wire.change = flip
    with pytest.raises(EncryptError, match="changed on the way"):
        client.ask(held_out_digits().x[:1])
    wire.change = None


def test_a_replayed_request_is_refused(client: Client, wire: Wire, url: str) -> None:
    client.ask(held_out_digits().x[:1])
    path, content = [(path, content) for path, content in wire.passed if path.startswith("/sessions/")][-1]
    again = httpx.post(url + path, content=content)
    assert (again.status_code, "is answered once" in again.text) == (409, True)


def test_a_member_of_the_session_who_sends_nonsense_gets_sentences(client: Client, service: Service) -> None:
    """A client of bad will has the session's key: its codes are right and its ciphertexts are not."""
    assert client._session is not None
    name, key = client._session
    fresh = client.keys.encrypt([0.5] * client.scheme.slots)
    evaluator = Arithmetic(client.scheme, client.keys.evaluation([1]))
    other = ClientKeys(type(client.scheme)(type(client.plan.parameters)(8192, (50, 36, 36, 50), 36)))
    whole = client.keys.encrypt_bytes([0.5] * client.scheme.slots)
    for parts, says in (
        ([to_bytes(evaluator.lower(fresh, 1))], "too few levels left"),
        ([to_bytes(evaluator.lower(fresh, 3))], "too few levels left"),
        ([other.encrypt_bytes([1.0])], "other parameters"),
        ([whole[:-5000]], "cannot be used"),
        ([b"\x00" * 1000], "cannot be used"),
        ([whole, whole], "takes 1 ciphertexts"),
        ([], "takes 1 ciphertexts"),
    ):
        client._number += 1
        content = pack({"plan": client.plan.fingerprint(), "number": client._number}, parts, key)
        with pytest.raises(EncryptError, match=says):
            service.answer(name, content)
    client._number += 1
    with pytest.raises(EncryptError, match="another model, plan or parameters"):
        service.answer(name, pack({"plan": "0" * 64, "number": client._number}, [whole], key))


def test_a_wrong_secret_key_is_noticed(client: Client, wire: Wire) -> None:
    """Keys of one client, ciphertexts of another: the answer is noise, and the client says so."""
    right, client.keys = client.keys, ClientKeys(client.scheme)
    with pytest.raises(EncryptError, match="does not decrypt to one"):
        client.ask(held_out_digits().x[:1])
    client.keys = right


def test_keys_that_do_not_fit_open_no_session(client: Client, url: str) -> None:
    plan = client.plan.fingerprint()
    relin, galois = client.keys.evaluation_bytes([1])
    for header, parts, says in (
        ({"plan": plan, "exchange": "00"}, [relin, galois], "X25519"),
        ({"plan": plan, "exchange": "09" + "00" * 31}, [relin, galois], "lacks the rotations"),
        ({"plan": plan, "exchange": "09" + "00" * 31}, [galois, relin], "cannot be used|does not belong|lacks"),
        ({"plan": plan, "exchange": "09" + "00" * 31}, [relin], "two keys"),
        ({"plan": "x", "exchange": "09" + "00" * 31}, [relin, galois], "another model"),
    ):
        response = httpx.post(f"{url}/sessions", content=pack(header, parts))
        assert response.status_code == 400
        assert any(word in response.text for word in says.split("|")), response.text


@pytest.mark.parametrize("header", ["Content-Length: 1073741824", "Transfer-Encoding: chunked"])
def test_a_gigabyte_is_refused_before_it_is_read(port: int, header: str) -> None:
    """The server answers and hangs up; what it took until then is far from a gigabyte."""
    chunk = bytes(2**20) if "Length" in header else b"100000\r\n" + bytes(2**20) + b"\r\n"
    sent = 0
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"POST /sessions/x HTTP/1.1\r\nHost: x\r\n{header}\r\n\r\n".encode())
        with contextlib.suppress(ConnectionError):
            while sent < 2**30 and not select.select([connection], [], [], 0)[0]:
                connection.sendall(chunk)
                sent += len(chunk)
        answer = b""
        with contextlib.suppress(ConnectionError):
            answer = connection.recv(4096)
    assert sent < 2**28
    assert not answer or b" 413 " in answer


def test_a_crash_in_native_code_is_told_and_survived(client: Client, service: Service, log: list[str]) -> None:
    x = held_out_digits().x[:1]
    client.ask(x)
    os.kill(service.worker.pid, signal.SIGSEGV)
    with pytest.raises(EncryptError, match="was ended by SIGSEGV"):
        client.ask(x)
    assert any("SIGSEGV" in line for line in log)
    answers = client.ask(x)  # with keys that are sent again
    assert answers.labels.tolist() == square_digits().predict(x).tolist()


def test_a_quiet_session_is_evicted_and_its_client_comes_back(client: Client, service: Service, wire: Wire) -> None:
    client.ask(held_out_digits().x[:1])
    opening = next(content for path, content in reversed(wire.passed) if path == "/sessions")
    for _ in range(2):  # public keys may be sent by anyone; they open sessions of their own
        service.open(opening)
    assert len(service._sessions) == 2
    answers = client.ask(held_out_digits().x[:1])
    assert answers.sent_bytes > 5e6  # the keys went again
    assert np.isfinite(answers.logits.numpy()).all()


def test_another_model_is_not_asked(url: str) -> None:
    with pytest.raises(EncryptError, match="was asked for"):
        Client(url, model="f" * 64)


def test_the_messages_are_as_long_as_their_ciphertexts(wire: Wire) -> None:
    for path, content in wire.passed:
        if path.startswith("/sessions/"):
            assert len(unpack(content[:-32]).parts) == 1
