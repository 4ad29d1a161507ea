"""Binding: the hashes by which a certificate says of which data set and of which network it is."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from modelkeep.certify.schema import Binding, Certificate, DataSet
from modelkeep.core.data import Data
from modelkeep.core.signing import canonical


def describe_data(data: Data, *, examples: int | None, seed: int, labelled: bool) -> tuple[DataSet, str]:
    """The data set, of which rows are drawn unless `examples` is None or as many as there are, and its hash.

    The draw goes by the hash of the set and the seed, so that a receiver can repeat it, and a sender cannot choose the
    rows that suit.
    """
    rows = [row for x, _ in data.batches(_AT_ONCE) for row in hash_rows(x)]
    labels = [int(label) if labelled else None for label in data.y.tolist()]
    pairs = [list(pair) for pair in zip(rows, labels, strict=True)]
    whole = sha256(canonical({"classes": list(data.classes), "rows": pairs})).hexdigest()
    count = len(rows) if examples is None else min(examples, len(rows))
    chosen = None
    if count < len(rows):
        order = sorted(range(len(rows)), key=lambda row: sha256(f"{whole}:{seed}:{row}".encode()).digest())
        chosen = sorted(order[:count])
    return DataSet(name=data.name, rows=len(rows), seed=seed, chosen=chosen), whole


def hash_rows(x: Any) -> list[str]:
    """The hash of each input `x: (n, ...)`: of its float32 numbers, the lowest byte first."""
    return [sha256(row.contiguous().numpy().astype("<f4").tobytes()).hexdigest() for row in x]


def bind(made: Certificate, data: str) -> Certificate:
    """The certificate with the hash of its network and that of its data set."""
    content = made.model_dump(mode="json")
    model = {name: content["model"][name] for name in _OF_MODEL}
    network = {"model": model, "operations": content["operations"], "weights": content["weights"]["sha256"]}
    binds = Binding(network=sha256(canonical(network)).hexdigest(), data=data)
    return made.model_copy(update={"binds": binds})


_AT_ONCE = 256
_OF_MODEL: Sequence[str] = ("input_shape", "classes", "mean", "std", "dtype")
