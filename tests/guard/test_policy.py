"""An epoch names the state of a guard: whatever is renamed or moved, it must stay."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Model
from modelkeep.core.errors import InputError
from modelkeep.guard.defence import Defence
from modelkeep.guard.defences.mad import MAD
from modelkeep.guard.defences.misinformation import AdaptiveMisinformation
from modelkeep.guard.defences.modelguard_s import ModelGuardS
from modelkeep.guard.defences.modelguard_w import ModelGuardW
from modelkeep.guard.defences.no_defence import NoDefence
from modelkeep.guard.defences.reverse_sigmoid import ReverseSigmoid
from modelkeep.guard.defences.rounding import Rounding
from modelkeep.guard.defences.top_one import TopOne
from modelkeep.guard.defences.unordered_quantiser import Unordered
from modelkeep.guard.policy import Policy


def _network() -> Model:
    module = nn.Linear(2, 3)
    nn.init.constant_(module.weight, 0.5)
    nn.init.zeros_(module.bias)
    return Model(module, input_shape=(2,), classes=("a", "b", "c"))


# As version 0.1.0 computed them. A store that was begun under one of them goes on only under the same.
EPOCHS: list[tuple[Defence, str]] = [
    (NoDefence(), "36d6a30d1bf9b666f4c885bd1c82bbf93256ae1669b8d3520aedaa30fbf4cbaf"),
    (TopOne(), "7e153f49a8b208df5d51137a49d43b1514fbf452c40906bb179d06d55561922b"),
    (Unordered(epsilon=0.5), "90b3f5c2a15216dfa90c08ba85daed5a53121466ab2bde9e32adbbefc74079a8"),
    (Rounding(), "8b7f007c5791cc7e6729da94916ae3ac3fd3449c7b54bf1040498a45f2276b75"),
    (ReverseSigmoid(beta=0.5), "79d1065c362f5c1a7de9a5fdf7fbc2a502726d4e6cbc9a08b4627c2c4382eec0"),
    (ModelGuardW(epsilon=0.8), "6ffc5150ec852c079c18f7f9659af579a9355d16eb52114cbb30d52c6851bd54"),
    (ModelGuardS(epsilon=0.5), "724e085ec0c55a34645f1fa8fba299b04ebc452405f4fc1077a835990f3c3c2f"),
    (MAD(surrogate=_network()), "bd55665b5cd954effbb499cee1e92b5df735c7a2795e628dba9fab6e0a0cd91a"),
    (
        AdaptiveMisinformation(threshold=0.5, misinformation=_network()),
        "6a565eba98297f3329535ee10ca78c3cf6a4d65b8ccaf6bd3b49426b274d88f2",
    ),
]


@pytest.mark.parametrize(("defence", "epoch"), EPOCHS, ids=[defence.name for defence, _ in EPOCHS])
def test_the_epoch_is_that_of_version_0_1_0(defence: Defence, epoch: str) -> None:
    assert Policy(defence, "weights", 3).epoch == epoch


def test_everything_that_decides_an_answer_changes_the_epoch() -> None:
    policies = [
        Policy(ModelGuardS(0.5), "weights", 3),
        Policy(ModelGuardS(0.5, secret=b"0123456789abcdef0123456789abcdef"), "weights", 3),
        Policy(ModelGuardS(0.6), "weights", 3),
        Policy(ModelGuardW(0.5), "weights", 3),
        Policy(ModelGuardS(0.5), "other weights", 3),
        Policy(ModelGuardS(0.5), "weights", 4),
        Policy(ModelGuardS(0.5), "weights", 3, noise=0.0),
        Policy(ModelGuardS(0.5), "weights", 3, dtype=str(torch.float64)),
    ]
    assert len({policy.epoch for policy in policies}) == len(policies)


@pytest.mark.parametrize(("classes", "noise"), [(1, 1e-5), (3, 0.1), (3, -1e-9)])
def test_a_policy_that_cannot_be_kept_is_refused(classes: int, noise: float) -> None:
    with pytest.raises(InputError):
        Policy(NoDefence(), "weights", classes, noise=noise)
