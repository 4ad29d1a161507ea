"""Fingerprint: a SHA-256 of named tensors and words, by which models, data and checkpoints are known again."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import torch

from modelkeep.core import progress
from modelkeep.core.examples import Stored, in_parts


def fingerprint(tensors: Mapping[str, torch.Tensor], *words: str) -> str:
    """The hash of names, types, shapes and bytes, in the order of the names, and of the words.

    Stored tensors are read in parts; the result is kept with them, for the next time.

    >>> fingerprint({"x": torch.zeros(2)}) == fingerprint({"x": torch.zeros(2, dtype=torch.float64)})
    False
    """
    stored = next((tensor for tensor in tensors.values() if isinstance(tensor, Stored)), None)
    if stored is None:
        return _hash(tensors, words)
    # What was asked for: the same names, words and values of what is in memory, and the same rows of what is stored.
    asked = {name: _rows_of(tensor) for name, tensor in tensors.items()}
    question = _hash(asked, words)
    kept = stored.examples.fingerprints
    if question not in kept:
        kept[question] = _hash(tensors, words)
    return kept[question]


def _hash(tensors: Mapping[str, torch.Tensor], words: tuple[str, ...]) -> str:
    digest = sha256()
    for word in words:
        digest.update(f"{len(word)}:{word}".encode())  # the length, so that words cannot run into each other
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode())
        if isinstance(tensor, Stored):
            with progress.task("fingerprint", total=len(tensor)) as task:
                for part in in_parts(tensor):
                    digest.update(_bytes(part))
                    task.advance(len(part))
        else:
            digest.update(_bytes(tensor))
    return digest.hexdigest()


def _rows_of(tensor: torch.Tensor) -> torch.Tensor:
    """In place of a stored tensor, which rows of its source it holds; none stand for all."""
    if not isinstance(tensor, Stored):
        return tensor
    return torch.tensor([], dtype=torch.int64) if tensor.chosen is None else tensor.chosen


def _bytes(tensor: torch.Tensor) -> Any:
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data
