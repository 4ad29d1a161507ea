"""Work is counted as it is done: the products that are estimated are those that the bounds were seen to compute."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from modelkeep import Model
from modelkeep.certify.constants import lipschitz
from modelkeep.certify.work import count_products


class Decompositions(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the products of the decompositions: of each matrix its Gram product, and the eigenvalues as twice that."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.products = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "linalg_eigh" in str(func):
            *many, side, _ = args[0].shape
            complex_ = 4 if args[0].is_complex() else 1
            self.products += complex_ * 3 * torch.Size(many).numel() * side**3
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Conv2d(8, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.ReLU()),
        nn.Sequential(nn.Conv2d(8, 32, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 32, 3, stride=2), nn.ReLU()),
        nn.Sequential(nn.Conv2d(8, 32, 4, stride=4), nn.ReLU()),
    ],
    ids=["three by three", "one by one", "patches"],
)
def test_the_estimate_is_of_the_order_of_what_is_computed(module: nn.Sequential) -> None:
    torch.manual_seed(0)
    shape = (8, 24, 24)
    width = module(torch.zeros(2, *shape)).flatten(1).shape[1]
    network = nn.Sequential(module, nn.Flatten(), nn.Linear(width, 3))
    model = Model(network.eval(), input_shape=shape, classes=3)
    with Decompositions() as seen:
        lipschitz(model)
    assert seen.products / 3 < count_products(model) < 3 * seen.products


def test_a_pointwise_convolution_takes_one_decomposition_however_large_the_picture() -> None:
    def products(size: int) -> float:
        network = nn.Sequential(nn.Conv2d(3, 16, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 2))
        return count_products(Model(network, input_shape=(3, size, size), classes=2))

    assert products(64) < 1.5 * products(32)
