"""A small network that was trained on digits, for attacks to be compared on."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from modelkeep import Data, Model
from modelkeep.zoo import datasets


@pytest.fixture(scope="session")
def digits_net() -> tuple[Model, Data]:
    """About 97 % right on the test digits; and 120 of these."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    train, test = datasets.load("digits", "train"), datasets.load("digits", "test")
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for epoch in range(12):
        for x, y in train.batches(64, seed=epoch):
            optimizer.zero_grad()
            functional.cross_entropy(net(x), y).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return Model(net, input_shape=(1, 8, 8), classes=test.classes), test.first(120)
