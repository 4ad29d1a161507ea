"""Fingerprint: a SHA-256 of named tensors and words, by which models, data and checkpoints are known again."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import torch


def fingerprint(tensors: Mapping[str, torch.Tensor], *words: str) -> str:
    """The hash of names, types, shapes and bytes, in the order of the names, and of the words.

    >>> fingerprint({"x": torch.zeros(2)}) == fingerprint({"x": torch.zeros(2, dtype=torch.float64)})
    False
    """
    digest = sha256()
    for word in words:
        digest.update(f"{len(word)}:{word}".encode())  # the length, so that words cannot run into each other
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
