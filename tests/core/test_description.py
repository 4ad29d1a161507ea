"""Things are described by all that makes them what they are, under names that do not move with their files."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.core.description import describe, stored_name
from modelkeep.core.method import declare, setting


@dataclass(frozen=True)
class Plain:
    size: float
    change: torch.Tensor


@dataclass(frozen=True)
class Moved:
    size: float
    stored_name = "modelkeep.old.place.Moved"


class MovedSubclass(Moved):
    """Another thing than its base, so it does not inherit the name."""


@declare("test", "described-nudge")
class Nudge:
    """A declared thing."""

    size: float = setting("How far.", default=0.1)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Plain, f"{__name__}.Plain"),
        (Moved, "modelkeep.old.place.Moved"),
        (MovedSubclass, f"{__name__}.MovedSubclass"),
        (Nudge, "test/described-nudge"),
    ],
)
def test_a_class_is_stored_by_its_own_name(kind: type, name: str) -> None:
    assert stored_name(kind) == name


def test_what_a_repr_shortens_counts() -> None:
    one, other = torch.zeros(5000), torch.zeros(5000)
    other[2500] = 1
    assert repr(Plain(1.0, one)) == repr(Plain(1.0, other))
    assert describe(Plain(1.0, one)) != describe(Plain(1.0, other))
    assert describe(Plain(1.0, one)) == describe(Plain(1.0, one.clone()))
    assert describe(np.zeros(5000)) != describe(other.double().numpy())


def test_a_description_is_json_and_keeps_no_secret() -> None:
    model = Model(nn.Linear(2, 2), input_shape=(2,), classes=("a", "b"))
    data = Data(torch.eye(2), torch.arange(2), model.classes)
    things = [Moved(1.0), Nudge(size=2.0), model, data, {"key": b"a secret"}, (1, None, "word"), np.arange(3), len]
    told = json.dumps(describe(things))
    assert "secret" not in told
    assert model.fingerprint() in told
    assert data.fingerprint() in told
    assert describe(b"a secret") != describe(b"another secret")
