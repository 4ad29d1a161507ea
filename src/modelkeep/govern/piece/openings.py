"""Openings: what a party keeps of its last passes, so that it can show to a checker how what it sent came about.

For each pass a file with all that came in it; for each state that a checkpoint has, the checkpoint itself, whose digest
the party states to the others with the next pass. From a state and what came since, all that was sent follows, and the
next state too: so what is opened begins one state earlier than it would have to.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save

from modelkeep.core.errors import CheckpointError, GovernError, PartyUnavailable
from modelkeep.govern.ledger.entry import Entry
from modelkeep.govern.ledger.ledger import Ledger
from modelkeep.govern.passes import Pass
from modelkeep.govern.piece.checkpoints import WORDING, Checkpoints
from modelkeep.govern.piece.materials import Materials
from modelkeep.govern.wire.message import Message
from modelkeep.training.checkpoint import Snapshot


@dataclass(frozen=True, eq=False)
class Received:
    """What came in one pass, in its order; `x` are the inputs of an inference, where this party brought them."""

    messages: tuple[tuple[str, Message], ...]
    x: torch.Tensor | None = None

    def to_bytes(self, of: Pass) -> bytes:
        """One safetensors file."""
        tensors = {
            f"{i}/{j}": tensor.contiguous()
            for i, (_, message) in enumerate(self.messages)
            for j, tensor in enumerate(message.tensors)
        }
        if self.x is not None:
            tensors["x"] = self.x.contiguous()
        told = [[peer, each.kind, each.header, len(each.tensors)] for peer, each in self.messages]
        return bytes(save(tensors, metadata={"step": str(of.step), "messages": json.dumps(told)}))


def read_received(payload: bytes) -> Received:
    """Read `Received.to_bytes` back."""
    try:
        tensors = load(payload)
        length = int.from_bytes(payload[:8], "little")
        told = json.loads(json.loads(payload[8 : 8 + length])["__metadata__"]["messages"])
        messages = [
            (str(peer), Message(str(kind), dict(header), tuple(tensors[f"{i}/{j}"] for j in range(count))))
            for i, (peer, kind, header, count) in enumerate(told)
        ]
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise GovernError(f"What came in a pass cannot be read: {error!r}.") from error
    return Received(tuple(messages), tensors.get("x"))


class Openings:
    """What can be shown of the last `most` passes, in a folder; nothing is kept where `most` is 0."""

    def __init__(self, folder: Path, checkpoints: Checkpoints, most: int) -> None:
        self._folder, self._checkpoints, self._most = folder, checkpoints, most
        self._messages: list[tuple[str, Message]] = []
        self._x: torch.Tensor | None = None
        self._steps: dict[int, int] = {}
        self._states: dict[int, str] = {}
        if most:
            self._load()

    def _load(self) -> None:
        """Find what an earlier process has kept."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in self._folder.glob("pass-*.safetensors"):
            with suppress(SafetensorError), safe_open(path, framework="pt") as file:  # a loss of power may leave a part
                self._steps[int(path.stem.split("-")[1])] = int((file.metadata() or {})["step"])
        for path in self._folder.glob("state-*.safetensors"):
            with suppress(CheckpointError):
                self._states[int(path.stem.split("-")[1])] = _fingerprint(path)

    def begin(self, of: Pass, x: torch.Tensor | None) -> None:
        """A pass begins."""
        self._messages = []
        self._x = x if of.purpose == "infer" else None

    def note(self, peer: str, message: Message) -> None:
        """Something came; it must not change any more."""
        if self._most:
            self._messages.append((peer, message))

    def keep(self, of: Pass) -> dict[str, str]:
        """Keep what came in the pass. Returns what the party states of it: the digest of its state, if that is kept."""
        if not self._most:
            return {}
        try:
            unfinished = self._folder / ".unfinished"  # not `replace_file`: to sync each pass would take longer than it
            unfinished.write_bytes(Received(tuple(self._messages), self._x).to_bytes(of))
            unfinished.replace(self._pass(of.number))
            self._steps[of.number] = of.step
            if of.step not in self._states and of.step in self._checkpoints.steps():
                self._adopt(of.step)
            self._forget(of.number)
        except OSError as error:
            raise PartyUnavailable(f"What came in {of} cannot be kept for checks: {error.strerror}.") from error
        return {"state": self._states[of.step]} if of.step in self._states else {}

    def _adopt(self, step: int) -> None:
        """Keep a checkpoint for longer than `Checkpoints` does."""
        own, theirs = self._state(step), self._checkpoints.path(step)
        own.unlink(missing_ok=True)
        try:
            os.link(theirs, own)  # the same bytes on disk: a checkpoint is replaced, never changed
        except OSError:
            shutil.copyfile(theirs, own)  # a file system without links
        self._states[step] = _fingerprint(own)

    def _forget(self, number: int) -> None:
        """Remove what no pass that may still be checked follows from."""
        oldest = min(step for each, step in self._steps.items() if each > number - self._most)
        start = self._last_before(self._last_before(oldest + 1))
        for each in [each for each, step in self._steps.items() if step < start]:
            self._pass(each).unlink(missing_ok=True)
            del self._steps[each]
        for step in [step for step in self._states if step < start]:
            self._state(step).unlink(missing_ok=True)
            del self._states[step]

    def _last_before(self, step: int) -> int:
        """The newest state before the one after `step` updates; itself where there is none."""
        return max((each for each in self._states if each < step), default=step)

    def open(self, number: int, ledger: Ledger, materials: Materials) -> torch.Tensor:
        """All from which follows what this party sent in the pass of that number, as the bytes of one file."""
        step, entries = self._find(ledger.entry(number), ledger)
        tensors: dict[str, torch.Tensor] = {
            "state": _octets(self._state(step).read_bytes()),
            "entries": _octets(json.dumps([entry.line() for entry in entries]).encode()),
        }
        for entry in entries:
            payload = self._pass(entry.number).read_bytes()
            tensors[f"pass/{entry.number}"] = _octets(payload)
            brought = read_received(payload).x
            x, y = materials.inputs(entry.of) if brought is None else brought, materials.labels(entry.of)
            tensors |= {f"x/{entry.of.data}": x.contiguous()} if x is not None else {}
            tensors |= {f"y/{entry.of.labels}": y.contiguous()} if y is not None else {}
        return _octets(bytes(save(tensors)))

    def _find(self, drawn: Entry, ledger: Ledger) -> tuple[int, list[Entry]]:
        """The last state but one that the party has stated, and the passes from it on that led to the one drawn."""
        newest: tuple[int, list[Entry]] | None = None
        for step in sorted((step for step in self._states if step <= drawn.of.step), reverse=True):
            led = [each for each in ledger.entries(step) if _is_between(each, step, drawn)]
            entries = [*led, drawn]
            stated = ledger.attempts.all_prepared(entries[0].number)
            whole = len(led) == drawn.of.step - step and all(each.number in self._steps for each in entries)
            if whole and any(each.values.get("state") == self._states[step] for each in stated):
                if newest is not None:
                    return step, entries
                newest = step, entries
        if newest is not None:  # there is only one as yet
            return newest
        raise GovernError(f"'{ledger.party}' has no state any more from which {drawn.of} follows.")

    def _pass(self, number: int) -> Path:
        return self._folder / f"pass-{number:09d}.safetensors"

    def _state(self, step: int) -> Path:
        return self._folder / f"state-{step:09d}.safetensors"


def _fingerprint(path: Path) -> str:
    """By which a state is known again."""
    return Snapshot.from_bytes(path.read_bytes(), f"The state {path}", WORDING).fingerprint()


def _is_between(entry: Entry, step: int, drawn: Entry) -> bool:
    return entry.of.purpose == "train" and step <= entry.of.step < drawn.of.step and entry.number != drawn.number


def _octets(payload: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(payload), dtype=torch.uint8)


@dataclass(frozen=True, eq=False)
class Opening:
    """What a party has opened: its state, its entries, what came in each pass, and the inputs and labels it brought."""

    state: bytes
    entries: Sequence[str]
    received: Mapping[int, Received]
    inputs: Mapping[str, torch.Tensor]
    labels: Mapping[str, torch.Tensor]


def read_opening(octets: torch.Tensor) -> Opening:
    """Read what `Openings.open` gave another party."""
    try:
        found = load(octets.numpy().tobytes())
        entries: Any = json.loads(found["entries"].numpy().tobytes())
        return Opening(
            found["state"].numpy().tobytes(),
            [str(line) for line in entries],
            {int(number): read_received(part.numpy().tobytes()) for number, part in _under("pass/", found).items()},
            _under("x/", found),
            _under("y/", found),
        )
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise GovernError(f"The opening cannot be read: {error!r}.") from error


def _under(prefix: str, found: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in found.items() if name.startswith(prefix)}
