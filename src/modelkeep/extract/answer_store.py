"""Answers by question, in memory and on disk, so that nothing is asked twice and Ctrl-C loses nothing."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np
import torch

NAME = 32  # bytes of a question's hash


class AnswerStore:
    """Answers `(classes,)` by the identity of their question.

    On disk a file per target is only ever appended to: for each answer the question's hash and a float32 per class.
    What a killed process left half written at its end is cut off.
    """

    def __init__(self, folder: str | Path | None, target: str, classes: int) -> None:
        self._answers: dict[bytes, torch.Tensor] = {}
        self._file = None
        if folder is None:
            return
        name = sha256(f"{target} {classes}".encode()).hexdigest()[:16]
        path = Path(folder) / f"answers-{name}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+b")
        self._file.seek(0)
        size = NAME + 4 * classes
        stored = self._file.read()
        whole = len(stored) // size * size
        for start in range(0, whole, size):
            row = np.frombuffer(stored, dtype="<f4", count=classes, offset=start + NAME)
            self._answers[stored[start : start + NAME]] = torch.from_numpy(row.astype(np.float32))
        self._file.truncate(whole)

    def __contains__(self, name: bytes) -> bool:
        return name in self._answers

    def __getitem__(self, name: bytes) -> torch.Tensor:
        return self._answers[name]

    def add(self, names: list[bytes], answers: torch.Tensor) -> None:
        """Keep the `answers: (n, classes)` to the questions of these names."""
        rows = answers.float().numpy().astype("<f4")
        if self._file is not None:
            self._file.write(b"".join(name + row.tobytes() for name, row in zip(names, rows, strict=True)))
            self._file.flush()
        self._answers.update(zip(names, answers.float(), strict=True))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def identity(question: torch.Tensor, repetition: int) -> bytes:
    """The hash of a question and of how often it was asked before."""
    return sha256(repetition.to_bytes(4, "little") + question.numpy().tobytes()).digest()
