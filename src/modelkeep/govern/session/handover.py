"""hand_over: give a request to the process that serves in a folder, and wait for what comes of it."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from modelkeep.core import errors, progress
from modelkeep.core.errors import GovernError, ModelKeepError
from modelkeep.core.results import Result
from modelkeep.core.signing import canonical
from modelkeep.govern.session.control import require_same_user, shorten_address
from modelkeep.govern.session.requests import Outcome, Request

_DTYPES = ("<f4", "<f8")


def hand_over(socket_at: Path, request: Request, tell: Callable[[str], None]) -> Outcome | None:
    """What the process that serves makes of the request; None where no process takes any at that socket.

    Ctrl-C ends the request, and not that process. `tell` is called with what the request waits for.
    """
    if not hasattr(socket, "AF_UNIX"):
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        try:
            with shorten_address(socket_at) as address:
                line.connect(address)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except OSError as error:
            raise GovernError(f"The process that serves cannot be asked at '{socket_at}': {error}.") from error
        require_same_user(line)
        try:
            line.sendall(canonical(asdict(request)) + b"\n")
            with line.makefile("rb") as answers:
                return _follow(answers, tell)
        except OSError as error:
            raise _ended() from error


def _follow(answers: IO[bytes], tell: Callable[[str], None]) -> Outcome:
    """Show what comes until the outcome is there."""
    tasks: dict[int, tuple[progress.Task, ExitStack]] = {}
    with ExitStack() as shown:
        for text in answers:
            values = json.loads(text)
            if values["kind"] == "told":
                tell(str(values["text"]))
            elif values["kind"] == "progress":
                _show_progress(values, tasks, shown)
            elif values["kind"] == "failed":
                raise _read_failure(values)
            else:
                return _read_outcome(values, answers)
    raise _ended()


def _show_progress(values: dict[str, Any], tasks: dict[int, tuple[progress.Task, ExitStack]], shown: ExitStack) -> None:
    name = int(values["id"])
    if name not in tasks:
        stack = shown.enter_context(ExitStack())
        tasks[name] = (stack.enter_context(progress.task(values["name"], values["total"])), stack)
    task, stack = tasks[name]
    task.advance(values["done"] - task.done, values["note"])
    if values["ended"]:
        del tasks[name]
        stack.close()


def _read_failure(values: dict[str, Any]) -> ModelKeepError:
    """The error as it was raised there, by the nearest of our classes that takes one sentence."""
    kind = getattr(errors, str(values["error"]), None)
    if not (isinstance(kind, type) and issubclass(kind, ModelKeepError)):
        kind = GovernError
    found = next(each for each in kind.__mro__ if each is ModelKeepError or "__init__" not in vars(each))
    assert issubclass(found, ModelKeepError)
    return found(str(values["text"]))


def _read_outcome(values: dict[str, Any], answers: IO[bytes]) -> Outcome:
    about = values["logits"]
    if about is None:
        return Outcome(Result.from_json(values["result"]))
    shape, dtype = [int(size) for size in about["shape"]], str(about["dtype"])
    if dtype not in _DTYPES:
        raise GovernError(f"The answers come as {dtype!r}, and {' or '.join(_DTYPES)} were due.")
    content = answers.read(prod(shape) * np.dtype(dtype).itemsize)
    if len(content) < prod(shape) * np.dtype(dtype).itemsize:
        raise _ended()
    logits = torch.from_numpy(np.frombuffer(content, dtype).reshape(shape).copy())
    return Outcome(None, logits, tuple(map(str, values["classes"])))


def _ended() -> GovernError:
    return GovernError("The process that served ended before the request did. Start it again, and then this command.")
