"""Described: in JSON all that makes a thing what it is, so that equal settings are known again."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import torch

from modelkeep.core.data import Data
from modelkeep.core.fingerprint import fingerprint
from modelkeep.core.model import Model


def described(thing: object) -> Any:
    """In JSON all that makes `thing` what it is, also what its `repr` leaves out or abbreviates; of a secret its hash.

    >>> described({"change": torch.zeros(1000)}) == described({"change": torch.eye(1000)[500]})
    False
    """
    if isinstance(thing, torch.Tensor):
        return fingerprint({"": thing})
    if isinstance(thing, np.ndarray):
        return ["array", str(thing.dtype), list(thing.shape), sha256(np.ascontiguousarray(thing).data).hexdigest()]
    if isinstance(thing, bytes):
        return ["bytes", sha256(thing).hexdigest()]
    if isinstance(thing, Data | Model):
        return thing.fingerprint()
    if isinstance(thing, dict):
        return [[described(key), described(value)] for key, value in thing.items()]
    if isinstance(thing, list | tuple):
        return [described(item) for item in thing]
    if hasattr(thing, "__qualname__"):  # a function or a class
        return _qualified(thing)
    name = _qualified(type(thing))
    if is_dataclass(thing):
        return [name, *([each.name, described(getattr(thing, each.name))] for each in fields(thing))]
    return f"{name} {thing!r}"


def _qualified(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"
