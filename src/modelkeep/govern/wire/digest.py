"""Digest: the BLAKE3 of what crosses between two parties, the same at both ends, for their ledgers."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from modelkeep.core.errors import MissingExtra
from modelkeep.govern.wire.message import octets, prepare_crossing
from modelkeep.govern.wire.settings import Wire


class Digest:
    """Hashes types, shapes and bytes as they cross: rounded to bfloat16 where they are, before any compression.

    >>> import torch
    >>> sent, received = Digest(Wire()), Digest(Wire())
    >>> sent.update([torch.ones(2), torch.zeros(())])
    >>> received.update([torch.ones(2)])
    >>> received.update([torch.zeros(())])
    >>> sent.hexdigest() == received.hexdigest()
    True
    """

    def __init__(self, wire: Wire) -> None:
        try:
            from blake3 import blake3
        except ImportError as missing:
            raise MissingExtra("govern", "blake3", "A digest of what crosses") from missing
        self._wire, self._hash = wire, blake3()

    def update(self, tensors: Iterable[Tensor]) -> None:
        """Hash some more tensors."""
        for tensor in tensors:
            crosses = prepare_crossing(tensor, self._wire)
            self._hash.update(f"{crosses.dtype}{tuple(crosses.shape)}".encode())
            self._hash.update(octets(crosses))

    def hexdigest(self) -> str:
        """The hash of all tensors so far, in hexadecimal."""
        return self._hash.hexdigest()
