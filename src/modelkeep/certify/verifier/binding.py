"""What a certificate is of: which data set, in which order and with which labels; which network and class names."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .arithmetic import Array
from .files import canonical, read_arrays
from .network import Refused


@dataclass(frozen=True)
class Given:
    """The data set that the receiver has: inputs `x: (n, ...)`, and labels `y: (n,)` and class names where known."""

    x: Array
    y: Array | None = None
    classes: Sequence[str] | None = None

    @classmethod
    def read(cls, path: Path) -> Given:
        """The data set of an .npz file: `x`, and `y` and `classes` where they are there."""
        found = read_arrays(path, ("x", "y", "classes"))
        if "x" not in found:
            raise Refused(f"'{path}' is not an .npz file with the inputs in an array 'x'.")
        classes = found.get("classes")
        return cls(found["x"], found.get("y"), None if classes is None else [str(name) for name in classes])

    def rows(self) -> list[str]:
        """The hash of each input: of its float32 numbers, the lowest byte first."""
        return [hashlib.sha256(x.tobytes()).hexdigest() for x in np.ascontiguousarray(self.x, "<f4")]


def network_hash(claims: Mapping[str, Any]) -> str:
    """The hash of all that makes the network: classes, preprocessing, type, operations, weights."""
    model = {name: claims["model"][name] for name in ("input_shape", "classes", "mean", "std", "dtype")}
    content = {"model": model, "operations": claims["operations"], "weights": claims["weights"]["sha256"]}
    return hashlib.sha256(canonical(content)).hexdigest()


def data_hash(rows: Sequence[str], labels: Sequence[int | None], classes: Sequence[str]) -> str:
    """The hash of a data set: its inputs' hashes in order, each with its label, and the names of the classes."""
    pairs = [list(pair) for pair in zip(rows, labels, strict=True)]
    return hashlib.sha256(canonical({"classes": list(classes), "rows": pairs})).hexdigest()


def draw_rows(data: str, rows: int, seed: int, count: int) -> list[int]:
    """Which rows of the data set with this hash are drawn: those whose hash with the seed comes first."""

    def place(row: int) -> bytes:
        return hashlib.sha256(f"{data}:{seed}:{row}".encode()).digest()

    return sorted(sorted(range(rows), key=place)[:count])


def require_binding(claims: Mapping[str, Any]) -> str:
    """What the certificate says that it is of, in words; refused where that does not fit together."""
    entries = claims["inputs"]
    if claims["version"] < 2:
        return "Version 1 binds no data set: inputs may have been left out, or repeated."
    if claims["binds"]["network"] != network_hash(claims):
        raise Refused("The hash of the network is not that of its classes, preprocessing, operations and weights.")
    data, whole = claims["data"], claims["binds"]["data"]
    if data["chosen"] is None:
        labels = [entry["label"] for entry in entries]
        found = data_hash([entry["sha256"] for entry in entries], labels, claims["model"]["classes"])
        if data["rows"] != len(entries) or found != whole:
            raise Refused(f"These {len(entries)} inputs are not the {data['rows']} of the data set that is named.")
        return f"All {data['rows']} rows of '{data['name']}'."
    if data["chosen"] != draw_rows(whole, data["rows"], data["seed"], len(entries)):
        raise Refused("The inputs are not those that the seed draws from the data set.")
    return f"{len(entries)} of the {data['rows']} rows of '{data['name']}', drawn by the seed {data['seed']}."


def compare_data(claims: Mapping[str, Any], given: Given) -> tuple[bool, str]:
    """Whether the inputs are the given ones, all and in order; refused where they are others."""
    entries = [entry["sha256"] for entry in claims["inputs"]]
    rows = given.rows()
    if claims["version"] < 2:
        return False, _compare_unbound(entries, rows)
    chosen = claims["data"]["chosen"]
    if len(rows) == claims["data"]["rows"]:
        if entries != (rows if chosen is None else [rows[row] for row in chosen]):
            raise Refused("The inputs are not those of the data, in its order.")
        if chosen is None or _labels(claims, given) is None:
            return chosen is None, f"The inputs are those of the data, all {len(rows)} and in order."
        if data_hash(rows, _labels(claims, given) or [], claims["model"]["classes"]) != claims["binds"]["data"]:
            raise Refused("The inputs were drawn from another data set: the hash of this one is not the one named.")
        return True, f"The {len(entries)} inputs are those that the seed draws from all {len(rows)}."
    if chosen is not None and rows == entries:
        return False, f"These are the {len(rows)} inputs that were drawn. Give all {claims['data']['rows']} of the set."
    raise Refused(f"The data has {len(rows)} rows, and the certificate is of a set of {claims['data']['rows']}.")


def compare_labels(claims: Mapping[str, Any], given: Given) -> tuple[bool, str]:
    """Whether the labels are those of the data."""
    claimed = [entry["label"] for entry in claims["inputs"]]
    if all(label is None for label in claimed):
        return True, "None are claimed."
    if any(label is None for label in claimed):
        raise Refused("Some inputs have a label and some have none.")
    if given.y is None:
        return False, "The data that was given has no labels."
    if len(given.y) != len(given.x):
        raise Refused(f"The data has {len(given.x)} inputs and {len(given.y)} labels.")
    known: dict[str, set[int]] = {}
    for row, label in zip(given.rows(), given.y.tolist(), strict=True):
        known.setdefault(row, set()).add(int(label))
    wrong = [e for e in claims["inputs"] if e["sha256"] in known and e["label"] not in known[e["sha256"]]]
    if wrong:
        raise Refused(f"{len(wrong)} labels are not those of the data.")
    chosen = claims.get("data", {}).get("chosen")
    there = given.y.tolist() if chosen is None or len(given.y) != claims["data"]["rows"] else given.y[chosen].tolist()
    if claims["version"] >= 2 and there != claimed:
        raise Refused("The labels are not those of the data, in its order.")
    return all(e["sha256"] in known for e in claims["inputs"]), f"The {len(claimed)} labels are those of the data."


def compare_model(claims: Mapping[str, Any], card: Mapping[str, Any] | None, given: Given | None) -> tuple[bool, str]:
    """Whether class names and preprocessing are those of the model's file, and the names those of the data."""
    model = claims["model"]
    _require_preprocessing(claims)
    if given is not None and given.classes is not None and list(given.classes) != model["classes"]:
        raise Refused("The classes have other names, or another order, than in the data.")
    if card is None:
        return False, "The weights' file says nothing of class names and preprocessing, so they are the signer's word."
    preprocessing = card.get("preprocessing") or {}
    for what, claimed, held in (
        ("classes", model["classes"], list(card["classes"])),
        ("input shape", model["input_shape"], list(card["input_shape"])),
        ("mean", model["mean"], list(preprocessing.get("mean") or [])),
        ("deviation", model["std"], list(preprocessing.get("std") or [])),
    ):
        if claimed != held:
            raise Refused(f"The {what} of the model's file is another than that of the certificate.")
    return True, "Class names and preprocessing are those of the model's file."


def _labels(claims: Mapping[str, Any], given: Given) -> list[int | None] | None:
    """The labels of all given rows as they were hashed; None where they are not known."""
    if all(entry["label"] is None for entry in claims["inputs"]):
        return [None] * len(given.x)
    return None if given.y is None else [int(label) for label in given.y.tolist()]


def _compare_unbound(entries: list[str], rows: list[str]) -> str:
    often, there = Counter(entries), Counter(rows)
    if not set(often) & set(there):
        raise Refused("None of the certified inputs is in the data.")
    if any(count > there[row] > 0 for row, count in often.items()):
        raise Refused("An input of the data is counted several times.")
    missing, foreign = len(there.keys() - often.keys()), sum(row not in there for row in entries)
    return f"Version 1 binds no data set. {missing} inputs of the data are left out, {foreign} are not in the data."


def _require_preprocessing(claims: Mapping[str, Any]) -> None:
    """The mean and the deviation that are told are those that the operations compute with."""
    model, operations = claims["model"], claims["operations"]
    if len(model["mean"]) != len(model["std"]) or not all(std > 0 for std in model["std"]):
        raise Refused("The mean and the deviation do not fit together.")
    first = operations[1] if len(operations) > 1 else None
    if not model["mean"]:
        if first is not None and first["name"] == "preprocessing":
            raise Refused("The network begins with a preprocessing that is not told.")
        return
    kind = np.float64 if model["dtype"] == "float64" else np.float32
    mean, std = (np.asarray(model[name], kind).astype(np.float64) for name in ("mean", "std"))
    if first is None or (first["name"], first["kind"]) != ("preprocessing", "scale") or first["tensors"]:
        raise Refused("A mean and a deviation are told, and the network does not begin with them.")
    factor, offset = first["settings"]["factor"], first["settings"]["offset"]
    if not np.allclose(factor, 1 / std, rtol=1e-9, atol=0) or not np.allclose(offset, -mean / std, rtol=1e-9):
        raise Refused("The network computes with another mean or deviation than those that are told.")
