"""The label-only attack against the closed form for a linear boundary."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import nn

from modelkeep import Data, Model
from modelkeep.privacy import Noise


def test_the_share_of_right_copies_is_that_of_a_gaussian_on_one_side_of_a_line() -> None:
    module = nn.Linear(2, 2)
    module.weight.data, module.bias.data = torch.tensor([[-1.0, 0.0], [1.0, 0.0]]), torch.zeros(2)
    model = Model(module, input_shape=(2,), classes=2, bounds=None)
    data = Data(torch.tensor([[0.1, 0.0], [1.0, 0.0], [3.0, 5.0]]), torch.ones(3, dtype=torch.int64), model.classes)
    copies = 4000
    found = Noise(copies=copies).share(model, data, torch.tensor([2.0, 1.0]), seed=0)
    strengths = 2.0 * (1 + np.arange(copies)) / copies
    for i in range(3):
        assert float(found[i]) == pytest.approx(norm.cdf(float(data.x[i, 0]) / strengths).mean(), abs=0.03)


def test_noise_stays_within_the_bounds_of_the_data() -> None:
    seen = []

    class Spy(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append((float(x.min()), float(x.max())))
            return torch.stack([x[:, 0] - 5, -x[:, 0]], dim=1)

    model = Model(Spy(), input_shape=(2,), classes=2)
    data = Data(torch.rand(5, 2), torch.zeros(5, dtype=torch.int64), model.classes, bounds=(0.0, 1.0))
    Noise(copies=5).share(model, data, torch.tensor([3.0, 3.0]), seed=0)
    assert all(low >= 0 and high <= 1 for low, high in seen)
