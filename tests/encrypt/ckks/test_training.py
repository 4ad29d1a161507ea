"""Training on ciphertexts against autograd of the same polynomials, and against the plain training step by step."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from modelkeep import Data
from modelkeep.core.errors import InputError, TrainingError
from modelkeep.encrypt.ckks.training import SIGMOID, _Hidden, _Logistic, train_on_ciphertexts


def little(n: int = 20) -> Data:
    x = torch.rand(n, 2, generator=torch.Generator().manual_seed(0))
    return Data(x, (x[:, 0] > x[:, 1]).long(), ("low", "high"))


def test_the_cubic_is_that_of_least_squares() -> None:
    z = np.linspace(-8, 8, 20001)
    found, *_ = np.linalg.lstsq(np.stack([z, z**3], axis=1), 1 / (1 + np.exp(-z)) - 0.5, rcond=None)
    np.testing.assert_allclose(found, SIGMOID[1:], rtol=1e-3)


def test_the_plain_steps_are_gradient_descent_by_autograd() -> None:
    x = torch.randn(12, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = torch.arange(12) % 2
    logistic, hidden = _Logistic(), _Hidden(3, seed=0)
    w = torch.full((4,), 0.3, dtype=torch.float64, requires_grad=True)
    z = x @ w
    # The loss whose derivative is the cubic minus the label.
    loss = (SIGMOID[0] * z + SIGMOID[1] / 2 * z**2 + SIGMOID[2] / 4 * z**4 - y * z).mean()
    torch.autograd.backward(loss)
    assert w.grad is not None
    stepped = logistic.plain_step(x.numpy(), logistic.target(y.double().numpy()), w.detach().numpy(), 0.5)
    np.testing.assert_allclose(stepped, (w - 0.5 * w.grad).detach().numpy())
    first = hidden.first_weights(4)
    v = torch.tensor(first, requires_grad=True)
    out = (x @ v[:12].reshape(3, 4).T).square() @ v[12:]
    torch.autograd.backward((out - (2 * y - 1)).square().mean() / 2)
    assert v.grad is not None
    stepped = hidden.plain_step(x.numpy(), hidden.target(y.double().numpy()), first, 0.5)
    np.testing.assert_allclose(stepped, (v - 0.5 * v.grad).detach().numpy())


@pytest.mark.parametrize(("hidden", "steps", "fit"), [(0, 2, 1), (2, 1, 1)])
def test_ciphertexts_learn_what_is_learned_in_the_clear(hidden: int, steps: int, fit: int) -> None:
    found = train_on_ciphertexts(little(), held_out=little(), hidden=hidden, steps=steps, steps_per_refresh=fit)
    assert max(found.errors) < 1e-3
    assert max(abs(weight) for weight in found.weights) > 0.01
    assert found.refreshes == steps - 1
    assert found.accuracy.value == found.plain_accuracy.value


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_training_that_diverges_says_so() -> None:
    with pytest.raises(TrainingError, match="Lower the learning rate"):
        train_on_ciphertexts(little(), held_out=little(), steps=1, learning_rate=1e12)


def test_three_classes_are_refused() -> None:
    data = Data(torch.rand(3, 2), torch.arange(3), ("a", "b", "c"))
    with pytest.raises(InputError, match="two classes"):
        train_on_ciphertexts(data, held_out=data)
