"""A real server in its own process is asked, and its memory is searched for the client's secret key."""

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
from modelkeep.core.model_file import Description
from modelkeep.encrypt.ckks.client import Client
from ports import free_port


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Any], subprocess.Popen[str]]]:
    folder = tmp_path_factory.mktemp("served")
    path = write_pt2(square_digits(), folder / "digits.pt2")
    describe_model(square_digits(), Description()).write(path.with_suffix(".toml"))
    command = [sys.executable, "-c", "from modelkeep.cli import main; main()", "encrypt", "serve", str(path)]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--data", "digits", "--port", str(free_port()), "--json"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert process.stdout is not None
        told = process.stdout.readline()
        assert told, (folder / "log").read_text()
        yield json.loads(told), process
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
    with Client(told["url"], model=told["model"], transport=listener) as client:
        x = held_out_digits().x[:1]
        assert client.ask(x).labels.tolist() == square_digits().predict(x).tolist()
        evaluated, plain = secret_patterns(client.keys)
        # The search works: SEAL keeps the key in the client's memory in this form.
        assert find_in_process("self", evaluated) == len(evaluated)
        for pid in (process.pid, told["worker"]):
            assert pid != os.getpid()
            assert find_in_process(pid, evaluated + plain) == 0
        assert not any(pattern in message for message in listener.passed for pattern in evaluated + plain)


def test_the_command_asks_and_says_what_is_wrong(
    server: tuple[dict[str, Any], subprocess.Popen[str]], tmp_path: Path, modelkeep: Run
) -> None:
    told, _ = server
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
