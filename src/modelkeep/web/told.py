"""Told: results as JSON for the scripts of the views, and what the drawer says of how they were made."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from typing import Any

import torch

from modelkeep.audit.sources import Sources
from modelkeep.core.errors import AccessError, InputError, ParameterError
from modelkeep.core.results import Provenance, Result
from modelkeep.explain import Explained
from modelkeep.web.rasters import make_map

_WORDS = 24  # of a text or a table: what a person reads


def tell(value: Any) -> Any:
    """A value as JSON can hold it; JavaScript's `Number` reads "Infinity" and "NaN".

    >>> tell({"radius": math.inf, "pair": (1, 2.0)})
    {'radius': 'Infinity', 'pair': [1, 2.0]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return tell(asdict(value))
    if isinstance(value, dict):
        return {key: tell(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [tell(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


@contextmanager
def naming(sources: Sources) -> Iterator[None]:
    """An error within names the model and the data as the user did, so that its command can be pasted.

    >>> with naming(Sources("net.onnx", "digits")):
    ...     raise InputError("Use `modelkeep certify MODEL --data DATA`.")
    Traceback (most recent call last):
    modelkeep.core.errors.InputError: Use `modelkeep certify net.onnx --data digits`.
    """
    try:
        yield
    except (InputError, AccessError) as error:
        if error.remedy is not None or isinstance(error, ParameterError):
            raise
        raise type(error)(sources.fill(error.wrong)) from error


def tell_making(
    made: Provenance, sources: Sources, *, n: int, command: str = "", python: str = "", data: str = "data"
) -> dict[str, Any]:
    """Hashes, seed, number of examples and the lines that make a result again, for the drawer."""
    return {
        "model_hash": made.model or "",
        "data_hash": made.data or "",
        "seed": made.seed,
        "n": n,
        "seconds": made.seconds,
        "version": made.version,
        "method": made.method or "",
        "command": sources.fill(command),
        "python": python.replace("(model, data,", f"(model, {data},"),
    }


def tell_result(result: Result, sources: Sources, *, n: int, data: str = "data") -> dict[str, Any]:
    """The same of a result whose method says its own command."""
    return tell_making(result.provenance, sources, n=n, command=result.command, python=result.python, data=data)


def tell_influence(found: Explained, spread: torch.Tensor | None) -> dict[str, Any]:
    """One explanation where people look: a map over the picture, the words of a text, or the features of a table.

    Attribution where there is a baseline, and else influence, as `Explained.heat` draws it. `spread: (features,)` makes
    the influences of features comparable.
    """
    attributed = found.attribution is not None
    told: dict[str, Any] = {"what": "attribution" if attributed else "influence"}
    if found.pieces and found.influence.ndim == 3:
        return {**told, "words": found.words()[0]}
    if found.influence.ndim == 4:
        return {**told, "map": tell(make_map(found.heat_over_inputs()[0]))}
    if found.influence.ndim == 2:
        values = found.attribution if found.attribution is not None else found.influence
        per_feature = values[0] if attributed or spread is None else values[0] * spread
        names = found.features or tuple(f"feature {i}" for i in range(len(per_feature)))
        order = per_feature.abs().argsort(descending=True, stable=True)[:_WORDS].tolist()
        return {**told, "features": [(names[i], float(per_feature[i]), float(found.activation[0, i])) for i in order]}
    return told
