"""FGSM makes the step of equations 2.10 to 2.12, and no other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from attack.peers import peer
from modelkeep import Data, Model
from modelkeep.attack.gradient.fgsm import FGSM
from modelkeep.attack.gradient.pgd import PGD
from modelkeep.core.norms import Norm

RADII: dict[Norm, float] = {"linf": 0.1, "l2": 0.6, "l1": 3.0}


@pytest.mark.parametrize("target", [None, "3"])
@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_it_is_the_step_of_the_equations(digits_net: tuple[Model, Data], norm: Norm, target: str | None) -> None:
    model, data = digits_net
    found = FGSM(norm=norm, radius=RADII[norm], target=target)(model, data, seed=0)
    x = data.x.double().requires_grad_()
    wanted = data.y if target is None else torch.full_like(data.y, 3)
    exact = nn.Sequential(*model.module.children()).double()
    loss = functional.cross_entropy(exact(x), wanted, reduction="sum")
    exact.float()
    (gradient,) = torch.autograd.grad(loss if target is None else -loss, x)
    if norm == "linf":
        step = RADII[norm] * gradient.sign()
    else:
        length = gradient.flatten(1).norm(p={"l2": 2, "l1": 1}[norm], dim=1)
        step = RADII[norm] * gradient / length.view(-1, 1, 1, 1)
    expected = (data.x + step).clamp(0, 1).float()
    assert 5 < int((found.success & (found.distance > 0)).sum()) < 115
    moved = found.success & (found.distance > 0)
    torch.testing.assert_close(found.adversarial[moved], expected[moved], atol=2e-6, rtol=0)
    reached = model.predict(expected) == 3 if target else model.predict(expected) != data.y
    assert int((reached != found.success).sum()) <= 1  # one may lie on the boundary, up to rounding


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_foolbox_finds_the_same_points(digits_net: tuple[Model, Data], norm: Norm) -> None:
    foolbox: Any = peer("foolbox")
    model, data = digits_net
    theirs = foolbox.PyTorchModel(model.module, bounds=(0, 1), device="cpu")
    attack = {
        "linf": foolbox.attacks.LinfFastGradientAttack,
        "l2": foolbox.attacks.L2FastGradientAttack,
        "l1": foolbox.attacks.L1FastGradientAttack,
    }[norm](random_start=False)
    _, points, wrong = attack(theirs, data.x, data.y, epsilons=RADII[norm])
    found = FGSM(norm=norm, radius=RADII[norm])(model, data, seed=0)
    assert int((wrong != found.success).sum()) <= 1
    both = wrong & found.success & (found.distance > 0)
    torch.testing.assert_close(
        found.adversarial[both], points[both], atol=1e-4, rtol=0
    )  # their gradient nearly underflows


def test_it_is_weaker_than_many_steps_and_far_cheaper(digits_net: tuple[Model, Data]) -> None:
    model, data = digits_net
    once = FGSM(radius=0.1)(model, data, seed=0)
    often = PGD(radius=0.1)(model, data, seed=0)
    assert often.robust_accuracy.value < once.robust_accuracy.value
    assert once.gradients <= len(data)
