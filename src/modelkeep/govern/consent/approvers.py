"""External approvers: a program or a web service that is asked about a pass, for a limited time."""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import IO
from urllib.parse import urlsplit

from modelkeep.core.errors import ConsentPending, ConsentRefused
from modelkeep.core.passphrase import SECRETS
from modelkeep.core.signing import canonical
from modelkeep.govern.passes import Pass

LARGEST = 64 * 1024  # bytes of an answer
LONGEST = 500  # characters of a reason


def ask_command(command: tuple[str, ...], of: Pass, timeout: float) -> None:
    """Consent is exit status 0. Whatever runs past the timeout is killed, with all that it has started."""
    deadline = time.monotonic() + timeout
    with tempfile.TemporaryFile() as asked:  # a file, because a pipe without a reader would block
        asked.write(canonical(asdict(of)))
        asked.seek(0)
        try:
            process = subprocess.Popen(
                command,
                stdin=asked,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={name: value for name, value in os.environ.items() if name not in SECRETS},
            )
        except OSError as error:
            raise ConsentPending(f"The approver's command cannot be started: {error.strerror or error}.") from error
    assert process.stdout is not None
    with process.stdout as output:
        try:
            answer = _output(output, deadline)
            status = process.wait(max(0.0, deadline - time.monotonic()))
        except BaseException as error:
            # It was not waited for, so the number of its group is still its own.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, TimeoutError | subprocess.TimeoutExpired):
                raise _late(of, timeout) from error
            raise
    if status != 0:
        reason = _reason(answer.decode(errors="replace"))
        raise ConsentRefused(f"The approver refuses {of}: {reason or f'exit status {status}, without a reason'}")


def ask_webhook(address: str, token_env: str | None, of: Pass, timeout: float) -> None:
    """Consent is an answer 2xx with `{"consent": true}`. No redirect is followed, and no proxy asked."""
    headers = {"Content-Type": "application/json", "Accept": "application/json", "Connection": "close"}
    if token_env is not None:
        headers["Authorization"] = f"Bearer {_token(token_env)}"
    parts = urlsplit(address)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    late = threading.Event()
    try:
        connection.connect()
        with _hang_up_after(connection.sock, timeout, late):
            connection.request("POST", path, canonical(asdict(of)), headers)
            with connection.getresponse() as response:
                answer = response.read(LARGEST + 1)
    except (OSError, HTTPException) as error:
        if late.is_set() or isinstance(error, TimeoutError):
            raise _late(of, timeout) from error
        raise ConsentPending(f"The approver's webhook cannot be asked: {type(error).__name__}: {error}") from error
    finally:
        connection.close()
    if late.is_set():
        raise _late(of, timeout)
    _check_answer(response, answer, of)


def _check_answer(response: HTTPResponse, answer: bytes, of: Pass) -> None:
    status = response.status
    if 300 <= status < 400:
        raise ConsentRefused(f"The approver's webhook redirects (status {status}), which is not followed.")
    if status >= 500:
        raise ConsentPending(f"The approver's webhook failed with status {status}.")
    if len(answer) > LARGEST:
        raise ConsentRefused(f"The approver's webhook answers with more than {LARGEST} bytes.")
    if response.length:
        raise ConsentPending(f"The answer of the approver's webhook ended {response.length} bytes too early.")
    try:
        values = json.loads(answer)
    except (ValueError, RecursionError):
        values = None
    told = values.get("reason") if isinstance(values, dict) else None
    reason = _reason(told) if isinstance(told, str) else ""
    if not 200 <= status < 300:
        raise ConsentRefused(f"The approver refuses {of} with status {status}{f': {reason}' if reason else '.'}")
    if not isinstance(values, dict) or not isinstance(values.get("consent"), bool):
        raise ConsentRefused('The approver\'s webhook must answer {"consent": true} or {"consent": false}; it did not.')
    if not values["consent"]:
        raise ConsentRefused(f"The approver refuses {of}: {reason or 'without a reason'}")


def _output(output: IO[bytes], deadline: float) -> bytes:
    """All that a program writes until it ends."""
    read = b""
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - time.monotonic())):
            chunk = os.read(output.fileno(), LARGEST)
            if not chunk:
                return read
            read += chunk
            if len(read) > LARGEST:
                raise ConsentRefused(f"The approver's command writes more than {LARGEST} bytes.")
    raise TimeoutError


@contextmanager
def _hang_up_after(line: socket.socket, timeout: float, late: threading.Event) -> Iterator[None]:
    """Hang up when the time is over: the socket's own timeout begins again with every byte."""

    def hang_up() -> None:
        late.set()
        with suppress(OSError):  # the other side was faster
            line.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(timeout, hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _token(name: str) -> str:
    """The token; an error never shows it."""
    token = os.environ.get(name, "")
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConsentPending(f"The environment variable '{name}' holds no token for the approver's webhook.")
    return token


def _late(of: Pass, timeout: float) -> ConsentPending:
    return ConsentPending(f"The approver did not answer about {of} within {timeout:g} seconds.")


def _reason(text: str) -> str:
    """The first line, fit to be told to others: short, and without what moves a terminal's cursor."""
    line = next(iter(text.strip().splitlines()), "")
    return "".join(character for character in line if character.isprintable())[:LONGEST]
