"""BIM is PGD from the original: its steps are FGSM's, and without a random start its seed does not matter."""

from __future__ import annotations

import pytest
import torch

from modelkeep import Data, Model
from modelkeep.attack.gradient.bim import bim
from modelkeep.attack.gradient.fgsm import fgsm
from modelkeep.core.errors import InputError
from modelkeep.core.norms import Norm


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_one_step_as_long_as_the_radius_is_fgsm(digits_net: tuple[Model, Data], norm: Norm) -> None:
    model, data = digits_net
    radius = {"linf": 0.1, "l2": 0.6}[norm]
    one = bim(model, data, norm=norm, radius=radius, steps=1, step_size=radius, seed=0)
    same = fgsm(model, data, norm=norm, radius=radius, seed=0)
    torch.testing.assert_close(one.adversarial, same.adversarial, rtol=0, atol=1e-6)


def test_it_draws_nothing_and_says_its_name(digits_net: tuple[Model, Data]) -> None:
    model, data = digits_net
    first, second = (bim(model, data, radius=0.1, steps=10, seed=seed) for seed in (0, 1))
    assert torch.equal(first.adversarial, second.adversarial)
    assert first.attack == "BIM"
    assert list(first.solved_by) == ["BIM"]
    assert first.robust_accuracy.value < fgsm(model, data, radius=0.1, seed=0).robust_accuracy.value


def test_nonsense_is_refused(digits_net: tuple[Model, Data]) -> None:
    model, data = digits_net
    with pytest.raises(InputError, match="'steps' parameter"):
        bim(model, data, radius=0.1, steps=0, seed=0)
