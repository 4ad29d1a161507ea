"""A real server in its own process answers who may ask, and its memory is searched for the client's secret key."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from cli.encrypt.memory import find_in_process, secret_patterns
from cli.running import Run
from digits import held_out_digits
from encrypt.square_digits import square_digits
from modelkeep.cli.convert import describe_model
from modelkeep.core.conversion import write_pt2
from modelkeep.core.errors import EncryptError
from modelkeep.core.model_file import Description
from modelkeep.encrypt.ckks.client import Client
from modelkeep.guard.gateway.principals import add_key
from modelkeep.guard.store import Principal, open_store
from ports import free_port

POLICY = """
[attributes]
role = ["clinician", "visitor"]
[principals.anna]
role = ["clinician"]
[principals.ben]
role = ["visitor"]
[rules]
ask = "role == clinician"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Any], subprocess.Popen[str]]]:
    folder = tmp_path_factory.mktemp("served")
    path = write_pt2(square_digits(), folder / "digits.pt2")
    describe_model(square_digits(), Description()).write(path.with_suffix(".toml"))
    (folder / "access.toml").write_text(POLICY)
    store = open_store(url := f"sqlite:///{folder / 'guard.sqlite3'}")
    keys = {name: add_key(store, Principal(name, None, None)) for name in ("anna", "ben")}
    store.close()
    command = [sys.executable, "-c", "from modelkeep.cli import main; main()", "encrypt", "serve", str(path)]
    options = ["--data", "digits", "--port", str(free_port()), "--json"]
    options += ["--access", str(folder / "access.toml"), "--store", url]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, *options],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert process.stdout is not None
        told = process.stdout.readline()
        assert told, (folder / "log").read_text()
        yield {**json.loads(told), "keys": keys}, process
        process.terminate()
        process.communicate()


class Listener(httpx.HTTPTransport):
    """Keeps what goes over the wire."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: list[bytes] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.passed.append(request.read())
        response = super().handle_request(request)
        self.passed.append(response.read())
        return response


def test_the_secret_key_is_in_the_client_and_nowhere_else(
    server: tuple[dict[str, Any], subprocess.Popen[str]],
) -> None:
    told, process = server
    listener = Listener()
    with Client(told["url"], model=told["model"], key=told["keys"]["anna"], transport=listener) as client:
        x = held_out_digits().x[:1]
        assert client.ask(x).labels.tolist() == square_digits().predict(x).tolist()
        evaluated, plain = secret_patterns(client.keys)
        # The search works: SEAL keeps the key in the client's memory in this form.
        assert find_in_process("self", evaluated) == len(evaluated)
        for pid in (process.pid, told["worker"]):
            assert pid != os.getpid()
            assert find_in_process(pid, evaluated + plain) == 0
        assert not any(pattern in message for message in listener.passed for pattern in evaluated + plain)


@pytest.mark.parametrize(
    ("who", "says"),
    [
        (None, "wants a key.* MODELKEEP_KEY"),
        ("ben", "This key may not do that here"),
        ("carl", "unknown or was revoked"),
    ],
)
def test_who_may_not_ask_is_told_so(
    server: tuple[dict[str, Any], subprocess.Popen[str]], who: str | None, says: str
) -> None:
    told, _ = server
    key = None if who is None else told["keys"].get(who, "mk_" + "0" * 43)
    with pytest.raises(EncryptError, match=says):
        Client(told["url"], key=key)
    header = {} if key is None else {"Authorization": f"Bearer {key}"}
    for method, path in (("POST", "/sessions"), ("POST", "/sessions/0"), ("GET", "/plan"), ("GET", "/sessions/0")):
        assert httpx.request(method, told["url"] + path, headers=header).status_code in (401, 403)


def test_the_command_asks_and_says_what_is_wrong(
    server: tuple[dict[str, Any], subprocess.Popen[str]],
    tmp_path: Path,
    modelkeep: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told, _ = server
    monkeypatch.setenv("MODELKEEP_KEY", told["keys"]["anna"])
    x = held_out_digits().x[0].numpy()
    np.save(tmp_path / "x.npy", x)
    ran = modelkeep(
        "encrypt", "ask", told["url"], "--input", str(tmp_path / "x.npy"), "--out", str(tmp_path / "y.npy"), "--json"
    )
    assert ran.code == 0, ran.err
    wanted = square_digits().logits(held_out_digits().x[:1]).numpy()
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), wanted, atol=1e-4)
    assert json.loads(ran.out)["kind"] == "encrypted-answers"
    np.save(tmp_path / "bad.npy", x + 5)
    for given, says in (
        ([told["url"], "--input", str(tmp_path / "bad.npy")], "from 0 to 1"),
        ([told["url"], "--input", str(tmp_path / "none.npy")], "not a .npy file"),
        ([told["url"], "--input", str(tmp_path / "x.npy"), "--fingerprint", "abc"], "was asked for"),
        ([f"http://127.0.0.1:{free_port()}", "--input", str(tmp_path / "x.npy")], "cannot be reached"),
    ):
        ran = modelkeep("encrypt", "ask", *given)
        assert ran.code != 0
        assert says in " ".join(ran.err.split()), ran.err
