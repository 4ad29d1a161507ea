"""Quadratics in place of activations: the closed form of the fit, and the accuracy that is kept."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from digits import digits_dense, held_out_digits, training_digits
from modelkeep import Model
from modelkeep.core.errors import InputError
from modelkeep.encrypt.polynomial import Polynomial, make_polynomial
from modelkeep.training import Recipe


def test_the_fit_of_relu_is_the_closed_form() -> None:
    """On [-r, r], the projection of ReLU on 1, x, x² is 3r/32 + x/2 + 15x²/(32 r)."""
    radius = 2.0
    x = torch.linspace(-radius, radius, 4001, dtype=torch.float64)
    with torch.no_grad():
        got = Polynomial.near(nn.ReLU(), x)(x)
    wanted = 3 * radius / 32 + x / 2 + 15 * x**2 / (32 * radius)
    np.testing.assert_allclose(got, wanted, atol=2e-3)


def test_an_odd_function_becomes_almost_a_line_with_a_vertex_in_reach() -> None:
    x = torch.linspace(-1, 1, 1001)
    fitted = Polynomial.near(nn.Tanh(), x)
    assert abs(fitted.shift.item()) <= 8 * x.std() + 1e-6
    with torch.no_grad():
        assert (fitted(x) - x.tanh()).abs().max() < 0.15


def test_replacing_keeps_the_accuracy_of_the_digits() -> None:
    made, result = make_polynomial(
        digits_dense(), training_digits(), held_out_digits(), recipe=Recipe(epochs=5, learning_rate=1e-3)
    )
    assert result.replaced
    assert not any(isinstance(part, nn.ReLU) for part in made.module.modules())
    assert any(isinstance(part, nn.ReLU) for part in digits_dense().module.modules())  # the owner's stays
    assert result.after.value > result.before.value - 0.03
    right = int((made.predict(held_out_digits().x) == held_out_digits().y).sum())
    assert result.after.value == right / len(held_out_digits())


def test_several_activations_and_pools_are_replaced_each_behind_those_before(trained_cnn: Model) -> None:
    train = training_digits().first(300)
    made, result = make_polynomial(trained_cnn, train, held_out_digits(), recipe=Recipe(epochs=1))
    kinds = (nn.ReLU, nn.MaxPool2d)
    parts = {name for name, part in trained_cnn.module.named_modules() if isinstance(part, kinds)}
    assert set(result.replaced) == parts
    assert len(parts) > 2
    assert not any(isinstance(part, kinds) or part.training for part in made.module.modules())


def test_a_network_without_activations_is_refused() -> None:
    model = Model(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), input_shape=(1, 8, 8), classes=10)
    with pytest.raises(InputError, match="can be replaced"):
        make_polynomial(model, training_digits(), held_out_digits())
