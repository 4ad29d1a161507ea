"""Processes that begin with torch and ModelKeep imported: what takes two seconds in a fresh one is done once.

Each is a process of its own with its own folder, environment and exit code, forked from one that Python keeps for that
(`multiprocessing`'s fork server). How a command starts from nothing is tested by a few tests that do so.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Self

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["torch", "scipy.stats", "sklearn.datasets", "matplotlib.pyplot", "modelkeep.cli"])


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it said."""

    code: int
    said: str


def run_command(words: Sequence[str], folder: Path, environment: Mapping[str, str], *, seconds: float) -> Ended:
    """Run `modelkeep WORDS` in a folder."""
    printed = folder / ".printed"
    process = _CONTEXT.Process(target=_command, args=(list(words), folder, dict(environment), printed))
    process.start()
    process.join(seconds)
    if process.exitcode is None:
        process.kill()
        process.join()
    assert process.exitcode is not None
    return Ended(process.exitcode, printed.read_text(errors="replace"))


class Interpreter:
    """A Python process that runs one block of text after the other, as a notebook does."""

    def __init__(self, folder: Path, environment: Mapping[str, str], *, seconds: float) -> None:
        self._folder, self._environment, self._seconds = folder, dict(environment), seconds
        self._process: ForkServerProcess | None = None
        self._blocks: Connection | None = None
        self._text = ""

    def run(self, body: str) -> None:
        """Run a block. Its lines have the numbers that they have in page.py, where `inspect` finds their source."""
        if self._process is None:
            self._blocks, theirs = _CONTEXT.Pipe()
            arguments = (theirs, self._folder, self._environment, self._folder / ".printed")
            self._process = _CONTEXT.Process(target=_page, args=arguments)
            self._process.start()
            theirs.close()
        assert self._blocks is not None
        above = "\n" * self._text.count("\n")
        self._text += body
        (self._folder / "page.py").write_text(self._text)
        self._blocks.send_bytes((above + body).encode())
        answer = b"nothing"
        if self._blocks.poll(self._seconds):
            with contextlib.suppress(EOFError):
                answer = self._blocks.recv_bytes()
        assert answer == b"done", f"{body}\n{(self._folder / '.printed').read_text(errors='replace')[-6000:]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._blocks is not None and self._process is not None:
            self._blocks.close()
            self._process.join(self._seconds)
            self._process.kill()


def _command(words: list[str], folder: Path, environment: dict[str, str], printed: Path) -> None:
    """In the new process: the command, from its words to its exit code."""
    from modelkeep.cli import main

    _move(folder, environment, printed)
    sys.argv = ["modelkeep", *words]
    with _ending():
        main()


def _page(asked: Connection, folder: Path, environment: dict[str, str], printed: Path) -> None:
    """In the new process: blocks as they come, until there are no more."""
    _move(folder, environment, printed)
    sys.path.insert(0, str(folder))
    page = types.ModuleType("__main__")
    sys.modules["__main__"] = page
    with _ending(), warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        for body in _received(asked):
            exec(compile(body, "page.py", "exec"), page.__dict__)
            asked.send_bytes(b"done")


def _received(asked: Connection) -> Iterator[str]:
    with contextlib.suppress(EOFError):
        while True:
            yield asked.recv_bytes().decode()


def _move(folder: Path, environment: dict[str, str], printed: Path) -> None:
    """Be a process of this folder and this environment, with nothing to read and a file to print to."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    files: tuple[tuple[str | Path, int, tuple[int, ...]], ...] = (
        (os.devnull, os.O_RDONLY, (0,)),
        (printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, (1, 2)),
    )
    for path, flags, targets in files:
        opened = os.open(path, flags, 0o600)
        for target in targets:
            os.dup2(opened, target)
        os.close(opened)


@contextlib.contextmanager
def _ending() -> Iterator[None]:
    """End as an interpreter does: what is uncaught is printed, and what was registered for the end is called."""
    end: Callable[[], None] = atexit._run_exitfuncs
    try:
        yield
    except SystemExit:
        raise
    except BaseException:
        traceback.print_exc()
        raise SystemExit(1) from None
    finally:
        end()
