"""BIM is PGD from the original: its steps are FGSM's, and without a random start its seed does not matter."""

from __future__ import annotations

import pytest
import torch

from modelkeep import Data, Model
from modelkeep.attack.gradient.bim import BIM
from modelkeep.attack.gradient.fgsm import FGSM
from modelkeep.core.errors import InputError
from modelkeep.core.norms import Norm


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_one_step_as_long_as_the_radius_is_fgsm(digits_net: tuple[Model, Data], norm: Norm) -> None:
    model, data = digits_net
    radius = {"linf": 0.1, "l2": 0.6}[norm]
    one = BIM(norm=norm, radius=radius, steps=1, step_size=radius)(model, data, seed=0)
    same = FGSM(norm=norm, radius=radius)(model, data, seed=0)
    torch.testing.assert_close(one.adversarial, same.adversarial, rtol=0, atol=1e-6)


def test_it_draws_nothing_and_says_its_name(digits_net: tuple[Model, Data]) -> None:
    model, data = digits_net
    first, second = (BIM(radius=0.1, steps=10)(model, data, seed=seed) for seed in (0, 1))
    assert torch.equal(first.adversarial, second.adversarial)
    assert first.attack == "BIM"
    assert list(first.solved_by) == ["BIM"]
    assert first.robust_accuracy.value < FGSM(radius=0.1)(model, data, seed=0).robust_accuracy.value


def test_nonsense_is_refused(digits_net: tuple[Model, Data]) -> None:
    model, data = digits_net
    with pytest.raises(InputError, match="'steps' parameter"):
        BIM(radius=0.1, steps=0)(model, data, seed=0)
