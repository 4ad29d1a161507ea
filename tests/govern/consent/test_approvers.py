"""External approvers: real programs, and a real web server on this machine."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from govern.asking import Party, a_pass
from modelkeep.core.errors import ConsentPending, ConsentRefused
from modelkeep.govern.consent import Policy
from modelkeep.govern.consent.approvers import LARGEST, LONGEST, ask_command, ask_webhook


@pytest.fixture
def bob(tmp_path: Path) -> Iterator[Party]:
    party = Party(tmp_path)
    yield party
    party.close()


def program(folder: Path, text: str) -> tuple[str, ...]:
    path = folder / "approver.py"
    path.write_text(text)
    return (sys.executable, str(path), "; exit 0", "$(exit 0)")  # which a shell would take for something else


def test_a_program_reads_the_pass_and_consents_or_refuses(tmp_path: Path) -> None:
    asked = tmp_path / "asked.json"
    command = program(
        tmp_path,
        f"import json, sys\nasked = json.load(sys.stdin)\nopen({str(asked)!r}, 'w').write(json.dumps(asked))\n"
        "assert sys.argv[1:] == ['; exit 0', '$(exit 0)']\n"
        "print('only \\x1b[31meven\\nnumbers')\nsys.exit(asked['number'] % 2 * 3)",
    )
    ask_command(command, a_pass(0), 30)
    assert json.loads(asked.read_text()) == asdict(a_pass(0))
    with pytest.raises(ConsentRefused, match=r"^The approver refuses pass 1 \(train, asked by alice\): only .31meven$"):
        ask_command(command, a_pass(1), 30)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import sys; sys.exit(7)", "exit status 7, without a reason"),
        ("import os; os.kill(os.getpid(), 9)", "exit status -9"),
        ("import sys; sys.stdout.buffer.write(bytes(range(128, 256))); sys.exit(1)", "�"),
        (f"print('x' * {LONGEST * 2}); raise SystemExit(1)", f": x{{{LONGEST}}}$"),
        ("while True: print('x' * 4096)", f"more than {LARGEST} bytes"),
    ],
    ids=["status", "killed", "no-text", "long", "endless"],
)
def test_what_a_program_says_is_told_in_short(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConsentRefused, match=told) as refused:
        ask_command(program(tmp_path, text), a_pass(), 30)
    assert not isinstance(refused.value, ConsentPending)


def gone(pid: int) -> bool:
    """Whether a process ends within some seconds (nobody waits for an orphan at once)."""
    for _ in range(500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize("end", ["wait", "exit 0"], ids=["it-hangs", "only-its-child-hangs"])
def test_a_late_program_is_killed_with_all_that_it_started(tmp_path: Path, end: str) -> None:
    pids, approver = tmp_path / "pids", tmp_path / "approver.sh"
    approver.write_text(f"trap '' TERM\nsleep 1000 &\necho $$ $! > '{pids}'\n{end}\n")
    command = ("/bin/sh", str(approver))
    with pytest.raises(ConsentPending, match=r"did not answer about pass 0 .* within 2 seconds"):
        ask_command(command, a_pass(), 2)
    found = [int(pid) for pid in pids.read_text().split()]
    assert len(found) == 2
    assert all(gone(pid) for pid in found)


def test_a_program_that_is_not_there_is_pending() -> None:
    with pytest.raises(ConsentPending, match="cannot be started: No such file"):
        ask_command(("/nowhere/approver",), a_pass(), 1)


def test_a_program_that_reads_nothing_does_not_block(tmp_path: Path) -> None:
    ask_command(program(tmp_path, ""), a_pass(data="d" * 1_000_000), 30)


def test_a_program_is_asked_once_per_pass_that_it_grants(bob: Party, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    text = (
        f"import json, os, sys\nopen({str(asked)!r}, 'a').write(str(json.load(sys.stdin)['number']))\n"
        f"sys.exit(os.path.exists({str(tmp_path / 'no')!r}))"
    )
    decision = bob.by(Policy(command=program(tmp_path, text), timeout=30))
    (tmp_path / "no").touch()
    for _ in range(2):
        with pytest.raises(ConsentRefused):
            decision.decide(a_pass(0))
    (tmp_path / "no").unlink()
    for _ in range(2):  # a refusal may be thought over, a consent was given
        decision.decide(a_pass(0))
    bob.log(a_pass(0))
    decision.decide(a_pass(1))
    decision.decide(a_pass(0))  # forgotten here by now, but in the ledger
    assert asked.read_text() == "0001"


def test_a_withdrawal_while_the_approver_thinks_counts(bob: Party, tmp_path: Path) -> None:
    thinking, go = tmp_path / "thinking", tmp_path / "go"
    text = (
        f"import os, time\nopen({str(thinking)!r}, 'w').close()\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.01)"
    )
    told: list[str] = []

    def ask() -> None:
        with suppress(ConsentRefused):
            try:
                bob.by(Policy(command=program(tmp_path, text), timeout=30)).decide(a_pass())
            except ConsentRefused as refused:
                told.append(str(refused))
                raise

    asking = threading.Thread(target=ask)
    asking.start()
    while not thinking.exists():
        time.sleep(0.01)
    bob.by(Policy()).require_not_withdrawn(a_pass())  # nobody else waits meanwhile
    bob.state.withdraw("changed my mind")
    go.touch()
    asking.join(30)
    assert "changed my mind" in told[0]


Answer = Callable[[BaseHTTPRequestHandler, bytes], None]


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """A web server that answers a POST with the function; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            with suppress(OSError):  # whoever asks may hang up
                answer(self, self.rfile.read(int(self.headers["Content-Length"])))

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/consent?for=bob"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def says(status: int, body: bytes, **headers: str) -> Answer:
    def answer(request: BaseHTTPRequestHandler, asked: bytes) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    return answer


def test_a_webhook_is_posted_the_pass_with_its_token(
    monkeypatch: pytest.MonkeyPatch, bob: Party, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("BOBS_TOKEN", "s3cret")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # which is not asked
    caplog.set_level(logging.DEBUG)
    seen = []

    def answer(request: BaseHTTPRequestHandler, asked: bytes) -> None:
        seen.append((request.path, request.headers["Authorization"], request.headers["Content-Type"], asked))
        says(201, b'{"consent": true}')(request, asked)

    with serving(answer) as address:
        policy = Policy(webhook=address, webhook_token_env="BOBS_TOKEN", timeout=30)
        for _ in range(2):  # kept: it is posted once
            bob.by(policy).decide(a_pass(3))
    ((path, token, kind, asked),) = seen
    assert (path, token, kind) == ("/consent?for=bob", "Bearer s3cret", "application/json")
    assert json.loads(asked) == asdict(a_pass(3))
    assert "s3cret" not in caplog.text + json.dumps(policy.values())
    bob.close()
    assert all(b"s3cret" not in path.read_bytes() for path in bob.folder.iterdir())


@pytest.mark.parametrize("token", [None, "", "two words", "line\nX-Other: yes", "ключ"])
def test_a_token_that_is_none_is_not_shown(monkeypatch: pytest.MonkeyPatch, token: str | None) -> None:
    monkeypatch.delenv("BOBS_TOKEN", raising=False)
    if token is not None:
        monkeypatch.setenv("BOBS_TOKEN", token)
    with pytest.raises(ConsentPending) as pending:
        ask_webhook("http://127.0.0.1:1/", "BOBS_TOKEN", a_pass(), 1)
    told = "The environment variable 'BOBS_TOKEN' holds no token for the approver's webhook."
    assert str(pending.value) == told


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (200, b'{"consent": false, "reason": "not on\\u001b Sundays\\nnever"}', r"asked by alice\): not on Sundays$"),
        (200, b'{"consent": false}', "without a reason"),
        (200, b'{"consent": 1}', "must answer"),
        (200, b'{"consent": "true"}', "must answer"),
        (200, b"true", "must answer"),
        (200, b"", "must answer"),
        (200, b"[" * 60_000, "must answer"),
        (200, b'{"consent": true}' + b" " * LARGEST, "more than"),
        (403, b'{"consent": true, "reason": "who are you?"}', r"status 403: who are you\?"),
        (404, b"", r"status 404\."),
    ],
    ids=["reason", "no-reason", "one", "text", "no-object", "empty", "deep", "large", "forbidden", "not-found"],
)
def test_a_webhook_refuses_with_all_but_a_plain_consent(status: int, body: bytes, told: str) -> None:
    with serving(says(status, body)) as address, pytest.raises(ConsentRefused, match=told) as refused:
        ask_webhook(address, None, a_pass(), 30)
    assert not isinstance(refused.value, ConsentPending)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(status: int) -> None:
    with (
        serving(says(200, b'{"consent": true}')) as elsewhere,
        serving(says(status, b'{"consent": true}', Location=elsewhere)) as address,
        pytest.raises(ConsentRefused, match=f"redirects .status {status}"),
    ):
        ask_webhook(address, None, a_pass(), 30)


def test_a_webhook_that_fails_or_is_not_there_is_pending() -> None:
    with serving(says(503, b'{"consent": true}')) as address, pytest.raises(ConsentPending, match="status 503"):
        ask_webhook(address, None, a_pass(), 30)
    with pytest.raises(ConsentPending, match="cannot be asked: ConnectionRefusedError"):
        ask_webhook(address, None, a_pass(), 30)


def test_an_answer_that_is_cut_off_is_no_consent() -> None:
    with (
        serving(says(200, b'{"consent": true}', **{"Content-Length": "1000"})) as address,
        pytest.raises(ConsentPending, match="ended 983 bytes too early"),
    ):
        ask_webhook(address, None, a_pass(), 30)


@pytest.mark.parametrize("begun", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nName: "], ids=["body", "headers"])
def test_a_webhook_that_drips_is_hung_up_on(begun: bytes) -> None:
    """Each byte comes in time, all of them never: a timeout of the socket alone would not end it."""
    all_told = threading.Event()

    def drip(request: BaseHTTPRequestHandler, asked: bytes) -> None:
        request.wfile.write(begun)
        for _ in range(400):
            request.wfile.write(b"x")
            time.sleep(0.05)
        all_told.set()

    with serving(drip) as address, pytest.raises(ConsentPending, match=r"within 0\.4 seconds"):
        ask_webhook(address, None, a_pass(), 0.4)
    assert not all_told.is_set()


def test_a_webhook_that_is_silent_is_late() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/"
        with pytest.raises(ConsentPending, match=r"within 0\.2 seconds"):
            ask_webhook(address, None, a_pass(), 0.2)


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("looks into /proc")
    before = len(os.listdir("/proc/self/fd"))
    for command in (program(tmp_path, ""), ("/nowhere",)):
        with suppress(ConsentPending):
            ask_command(command, a_pass(), 30)
    with suppress(ConsentPending):
        ask_webhook("http://127.0.0.1:1/", None, a_pass(), 1)
    assert len(os.listdir("/proc/self/fd")) == before
