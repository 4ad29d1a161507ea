"""Records by name: a row number, or a hash that names a record without showing it."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError

SHOWN = 12
"""The digits of a hash that are shown; more than enough to tell records apart."""


def record_hashes(data: Data) -> list[str]:
    """The SHA-256 of each record: its values as little-endian float32, and its label.

    >>> data = Data(torch.tensor([[1.0], [2.0]]), torch.tensor([0, 1]), ("a", "b"))
    >>> [found[:SHOWN] for found in record_hashes(data)]
    ['7d8cfcb6be38', 'a5a344681967']
    """
    hashes = []
    for x, y in data.batches(4096):
        rows = x.cpu().contiguous().numpy().astype("<f4")
        labels = y.tolist()
        hashes += [sha256(row.tobytes() + b"/%d" % label).hexdigest() for row, label in zip(rows, labels, strict=True)]
    return hashes


def find_records(data: Data, names: Sequence[str]) -> torch.Tensor:
    """The places of records that are named by row, from 0, or by the beginning of their hash (8 digits or more)."""
    hashes: list[str] = []
    found = []
    for name in (each.strip().lower() for each in names):
        if name.isdecimal() and len(name) < 8:
            if int(name) >= len(data):
                raise InputError(f"'{data.name}' has the rows 0 to {len(data) - 1}. Got row {name}.")
            found.append(int(name))
            continue
        hashes = hashes or record_hashes(data)
        places = [i for i, each in enumerate(hashes) if len(name) >= 8 and each.startswith(name)]
        if not places:
            raise InputError(
                f"'{name}' names no record of '{data.name}'. Give a row from 0 to {len(data) - 1}, or 8 or more digits "
                "of a record's hash, as `modelkeep privacy` shows it."
            )
        found += places  # a record that occurs twice has one hash
    if not found:
        raise InputError(f"No record of '{data.name}' is named. Give a row number or a hash in each line.")
    return torch.tensor(list(dict.fromkeys(found)))
