"""Worker: the process that reads what clients sent and computes on it.

SEAL is native code that reads bytes from the network. It runs in a process of its own, so that a crash there ends one
answer and no more: the server tells the client, logs the signal and starts another worker. Server and worker speak
messages over a pipe. The worker imports no torch and has no network connection.
"""

from __future__ import annotations

import contextlib
import io
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import IO, Any

import numpy as np

from modelkeep.core.errors import EncryptError, ModelKeepError
from modelkeep.encrypt.ckks.affine import Affine
from modelkeep.encrypt.ckks.arithmetic import Arithmetic
from modelkeep.encrypt.ckks.evaluation import PackedProgram, Program, SingleProgram, require_count
from modelkeep.encrypt.ckks.keys import EvaluationKeys
from modelkeep.encrypt.ckks.messages import Message, pack, unpack
from modelkeep.encrypt.ckks.packing import Gather, diagonals
from modelkeep.encrypt.ckks.parameters import Parameters
from modelkeep.encrypt.ckks.scheme import Floats, Scheme, to_bytes

_LENGTH = struct.Struct("!Q")


class WorkerDied(EncryptError):
    """The worker ended in the middle of an answer; another one was started."""


class Worker:
    """The server's handle of its worker process: one request at a time."""

    def __init__(self, setup: bytes) -> None:
        self._setup = setup
        self._lock = threading.Lock()
        self._process = self._start()

    @property
    def pid(self) -> int:
        """The process that computes."""
        return self._process.pid

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "modelkeep.encrypt.ckks.worker"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        _write(process.stdin, self._setup)
        return process

    def ask(self, header: Mapping[str, Any], parts: Sequence[bytes] = ()) -> Message:
        """What the worker answers, or its error; WorkerDied where it crashed."""
        with self._lock:
            process = self._process
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                _write(process.stdin, pack(header, parts))
                answer = _read(process.stdout)
            except OSError:
                answer = None
            if answer is None:
                ended = _bury(process)
                self._process = self._start()
                raise WorkerDied(f"The worker {_describe_end(ended)} while it computed, and was started anew.")
        message = unpack(answer)
        if "error" in message.header:
            raise EncryptError(str(message.header["error"]))
        return message

    def close(self) -> None:
        """End the worker."""
        with self._lock:
            _bury(self._process)


def _bury(process: subprocess.Popen[bytes]) -> int:
    """Close the pipes, which ends a worker that still lives, and return how it ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(OSError):  # what was not yet written has no reader any more
        process.stdin.close()
    ended = process.wait()
    process.stdout.close()
    return ended


def _describe_end(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def make_setup(parameters: Parameters, maps: Sequence[Affine], first: Gather | None, steps: Sequence[int]) -> bytes:
    """All that a worker needs to know, as one message: parameters and weights, as arrays without objects."""
    arrays: list[np.ndarray[Any, Any]] = [array for affine in maps for array in (affine.weight, affine.bias)]
    packing = None if first is None else {"period": first.period, "taps": first.taps}
    if first is not None:
        arrays.append(first.index)
    header = {"parameters": asdict(parameters), "names": [affine.name for affine in maps], "packing": packing}
    return pack({**header, "steps": list(steps)}, [_to_npy(array) for array in arrays])


class _State:
    """What a worker knows: the program, and the keys of each session."""

    def __init__(self, setup: Message) -> None:
        self.scheme = Scheme(Parameters.read(setup.header["parameters"]))
        self.steps = [int(step) for step in setup.header["steps"]]
        arrays = [_from_npy(part) for part in setup.parts]
        names = setup.header["names"]
        maps = [Affine(name, arrays[2 * i], arrays[2 * i + 1], arrays[2 * i] != 0) for i, name in enumerate(names)]
        self.program = self._make_program(maps, setup.header["packing"], arrays[-1])
        self.sessions: dict[str, Arithmetic] = {}

    def _make_program(self, maps: list[Affine], packing: Mapping[str, int] | None, index: Floats) -> Program:
        if packing is None:
            return PackedProgram(self.scheme, maps)
        first = Gather(index.astype(np.int64), packing["period"], packing["taps"])
        later, period = [], first.period
        for affine in maps[1:]:
            later.append(diagonals(affine.weight, period))
            period = later[-1].period
        return SingleProgram(self.scheme, maps, first, later)

    def answer(self, asked: Message) -> bytes:
        """Do what a message asks for."""
        session = str(asked.header["session"])
        if asked.header["do"] == "open":
            keys = EvaluationKeys.read(self.scheme, asked.parts[0], asked.parts[1], self.steps)
            self.sessions[session] = Arithmetic(self.scheme, keys)
            return pack({})
        if asked.header["do"] == "close":
            self.sessions.pop(session, None)
            return pack({})
        require_count(asked.parts, self.program.ciphertexts)
        inputs = [self._read_input(part, f"ciphertext {i}") for i, part in enumerate(asked.parts)]
        answers = self.program.run(self.sessions[session], inputs)
        return pack({}, [to_bytes(each) for each in answers])

    def _read_input(self, content: bytes, what: str) -> Any:
        ciphertext = self.scheme.read_ciphertext(content, what=what)
        if self.scheme.level(ciphertext) != 0 or ciphertext.scale != self.scheme.parameters.scale:
            raise EncryptError(
                f"The {what} has level {self.scheme.level(ciphertext)} and scale {ciphertext.scale:g}; the plan takes "
                f"level 0 and {self.scheme.parameters.scale:g}. A used-up ciphertext has too few levels left."
            )
        return ciphertext


def work(stdin: IO[bytes], stdout: IO[bytes]) -> None:
    """Read the setup, then answer until the input ends."""
    setup = _read(stdin)
    if setup is None:
        return
    state = _State(unpack(setup))
    while (asked := _read(stdin)) is not None:
        try:
            answer = state.answer(unpack(asked))
        except ModelKeepError as error:
            answer = pack({"error": str(error)})
        except (RuntimeError, ValueError, KeyError, IndexError) as error:  # of SEAL, for which no sentence is known
            answer = pack({"error": f"The request could not be computed ({type(error).__name__})."})
        _write(stdout, answer)


def _write(stream: IO[bytes], content: bytes) -> None:
    stream.write(_LENGTH.pack(len(content)))
    stream.write(content)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes | None:
    """One message; None at the end of the stream."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    content = stream.read(length)
    return content if len(content) == length else None


def _to_npy(array: np.ndarray[Any, Any]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def _from_npy(content: bytes) -> Floats:
    loaded: Floats = np.load(io.BytesIO(content), allow_pickle=False)
    return loaded


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then ends the worker's input
    work(sys.stdin.buffer, sys.stdout.buffer)
