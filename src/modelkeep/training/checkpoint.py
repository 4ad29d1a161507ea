"""Checkpoint: a run's whole state in one safetensors file, written so that `kill -9` never leaves half of one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from modelkeep.core.errors import CheckpointError
from modelkeep.core.files import replace_file
from modelkeep.core.fingerprint import fingerprint


@dataclass(frozen=True)
class Wording:
    """What the errors about a file say: what it `keeps`, what to `redo` without it, what follows if none is written."""

    keeps: str
    redo: str
    unwritten: str


TRAINING = Wording(
    keeps="checkpoint",
    redo="train",
    unwritten="Training stopped; the model keeps the weights that it has reached, and an earlier checkpoint, if there "
    "is one, is untouched. Make room or give another path, then train again.",
)


@dataclass(frozen=True)
class Snapshot:
    """The state of a run between two steps: tensors by name, JSON values, and the identity of the run."""

    tensors: dict[str, torch.Tensor]
    values: dict[str, Any]
    identity: dict[str, Any]

    def to_bytes(self) -> bytes:
        """One safetensors file; its header holds the JSON and a SHA-256 of everything."""
        # Copies: safetensors refuses tensors that share memory, and the file must not depend on strides.
        tensors = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in self.tensors.items()}
        return bytes(save(tensors, metadata={"state": self._state, "sha256": self.fingerprint()}))

    def fingerprint(self) -> str:
        """The SHA-256 of everything. That of `to_bytes` may differ each time: safetensors has no order of metadata."""
        return fingerprint(self.tensors, self._state)

    @property
    def _state(self) -> str:
        return json.dumps({"values": self.values, "identity": self.identity})

    @classmethod
    def from_bytes(cls, payload: bytes, origin: str, wording: Wording = TRAINING) -> Snapshot:
        """Read `to_bytes` back, whole or not at all; `origin` is what the error names."""
        try:
            tensors = load(payload)
            length = int.from_bytes(payload[:8], "little")
            metadata = json.loads(payload[8 : 8 + length])["__metadata__"]
            if fingerprint(tensors, metadata["state"]) != metadata["sha256"]:
                raise ValueError("its content does not match its SHA-256")
            return cls(tensors, **json.loads(metadata["state"]))
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{origin} is damaged or not a {wording.keeps} ({error}). Delete it to {wording.redo} from the start, "
                "or give another path."
            ) from error

    def part(self, prefix: str) -> dict[str, torch.Tensor]:
        """The tensors whose names start with `prefix`, without it."""
        return {name.removeprefix(prefix): tensor for name, tensor in self.tensors.items() if name.startswith(prefix)}


def read(path: Path, wording: Wording = TRAINING) -> bytes | None:
    """What the file holds; None where there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CheckpointError(f"The {wording.keeps} {path} cannot be read: {error.strerror}.") from error


def write(path: Path, payload: bytes, wording: Wording = TRAINING) -> None:
    """Put the file in place in one motion."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(path) as unfinished:
            unfinished.write_bytes(payload)
    except OSError as error:
        raise CheckpointError(
            f"The {wording.keeps} {path} cannot be written: {error.strerror}. {wording.unwritten}"
        ) from error


def differences(stored: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, str]:
    """In words, by name, what another run did differently."""
    names = [name for name in {**stored, **own} if stored.get(name) != own.get(name)]
    return {name: f"{name} was {_short(stored.get(name))} and is now {_short(own.get(name))}" for name in names}


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
