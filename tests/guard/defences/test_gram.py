"""The Gram matrix of a surrogate's gradients: in closed form, and one gradient at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from modelkeep import Model
from modelkeep.core.errors import ModelError
from modelkeep.guard.defences import gram
from modelkeep.guard.defences.gram import gradients_gram


class Residual(nn.Module):
    """A block with a skip connection that overwrites in place."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 3, 3, stride=2, padding=1, dilation=2, bias=False), nn.BatchNorm2d(3)
        self.second, self.relu, self.head = nn.Conv2d(3, 3, 1), nn.ReLU(inplace=True), nn.Linear(27, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.norm(self.conv(x)))
        return torch.as_tensor(self.head(self.relu(x + self.second(x)).flatten(1)))


class Twice(nn.Module):
    """A layer that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(64, 64), nn.Linear(64, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.head(self.inner(self.inner(x.flatten(1)).relu())))


class Sequences(nn.Module):
    """A linear layer on the rows of an image, another that nobody calls, and a norm without a rule."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.norm, self.head, self.idle = nn.Linear(8, 5), nn.LayerNorm(5), nn.Linear(40, 4), nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.head(self.norm(self.rows(x[:, 0])).flatten(1)))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], bool]] = {
    "residual": (Residual, True),
    "flat": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.BatchNorm1d(9), nn.ReLU(), nn.Linear(9, 4)),
        True,
    ),
    "called twice": (Twice, False),
    "sequences": (Sequences, False),
    "rows": (lambda: nn.Sequential(nn.Flatten(2), nn.Linear(64, 4), nn.Flatten()), False),
}


def one_at_a_time(model: Model, x: torch.Tensor) -> np.ndarray:
    parameters = list(model.module.parameters())
    logs = model.forward(x).log_softmax(dim=1)[0]
    rows = [torch.autograd.grad(log, parameters, retain_graph=True, materialize_grads=True) for log in logs]
    jacobian = torch.stack([torch.cat([part.flatten() for part in row]) for row in rows])
    return (jacobian @ jacobian.T).numpy()


def test_a_linear_surrogate_has_a_closed_form() -> None:
    surrogate = Model(nn.Linear(5, 3).double(), input_shape=(5,), classes=3, bounds=None)
    x = torch.randn(1, 5, dtype=torch.float64)
    # ∇_w log f_k = (e_k − f) ⊗ (x, 1).
    rest = np.eye(3) - surrogate.probs(x).numpy()
    np.testing.assert_allclose(gradients_gram(surrogate, x), (1 + float(x.square().sum())) * rest @ rest.T, rtol=1e-10)


@pytest.mark.parametrize("name", NETWORKS)
def test_it_is_that_of_one_gradient_at_a_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build, fast = NETWORKS[name]
    torch.manual_seed(4)
    module = build().double()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            assert part.running_mean is not None
            assert part.running_var is not None
            part.running_mean.uniform_(-1, 1)
            part.running_var.uniform_(0.5, 2)
    model = Model(module, input_shape=(1, 8, 8), classes=4)
    x = torch.rand(1, 1, 8, 8, dtype=torch.float64)
    expected = one_at_a_time(model, x)
    slow = 0
    by_weights = gram._by_weights

    def counted(surrogate: Model, query: torch.Tensor) -> torch.Tensor:
        nonlocal slow
        slow += 1
        return by_weights(surrogate, query)

    monkeypatch.setattr(gram, "_by_weights", counted)
    first = next(module.parameters()).requires_grad_(False)  # what the owner froze counts all the same
    with torch.no_grad():
        np.testing.assert_allclose(gradients_gram(model, x), expected, rtol=1e-9, atol=1e-12)
    assert slow == (0 if fast else 1)
    assert not first.requires_grad
    assert all(parameter.grad is None for parameter in module.parameters())
    assert not any(part._forward_hooks for part in module.modules())


def test_damaged_weights_are_no_angle() -> None:
    surrogate = Model(nn.Linear(3, 2), input_shape=(3,), classes=2, bounds=None)
    with torch.no_grad():
        next(surrogate.module.parameters()).fill_(float("nan"))
    with pytest.raises(ModelError, match="not finite"):
        gradients_gram(surrogate, torch.ones(1, 3))
