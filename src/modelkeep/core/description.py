"""Descriptions: everything that makes a thing what it is, in JSON. Equal settings have equal descriptions.

Descriptions are hashed into names that are stored (the epoch of a guard's policy, the checkpoint of an attack), so a
class is known in them by a name of its own: its `stored_name`, else the family and name of its declaration. The path of
its module, which changes when a file moves, is the last resort.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import torch

from modelkeep.core.data import Data
from modelkeep.core.fingerprint import fingerprint
from modelkeep.core.model import Model
from modelkeep.core.registry import declaration_of


def describe(thing: object) -> Any:
    """Everything that makes `thing` what it is, also what its `repr` leaves out or shortens; of a secret its hash.

    >>> describe({"change": torch.zeros(1000)}) == describe({"change": torch.eye(1000)[500]})
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
        return [[describe(key), describe(value)] for key, value in thing.items()]
    if isinstance(thing, list | tuple):
        return [describe(item) for item in thing]
    if hasattr(thing, "__qualname__"):  # a function or a class
        return stored_name(thing)
    name = stored_name(type(thing))
    if is_dataclass(thing):
        # The provenance of a result holds the time that it took, which makes it no other thing.
        held = [each.name for each in fields(thing) if each.name != "provenance"]
        return [name, *([each, describe(getattr(thing, each))] for each in held)]
    return f"{name} {thing!r}"


def stored_name(thing: Any) -> str:
    """The name by which a class or a function is known in what is stored.

    >>> class Moved:
    ...     stored_name = "modelkeep.old.place.Moved"
    >>> stored_name(Moved)
    'modelkeep.old.place.Moved'
    """
    if isinstance(thing, type):
        own, declared = vars(thing).get("stored_name"), declaration_of(thing)
        if isinstance(own, str):
            return own
        if declared is not None:
            return f"{declared.family}/{declared.name}"
    return f"{thing.__module__}.{thing.__qualname__}"
