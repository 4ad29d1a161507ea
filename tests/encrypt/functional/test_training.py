"""Training on inner products is the plain training bit for bit; what it opens is what an attacker solves for."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from encrypt.functional.test_group import TOY
from modelkeep import Data, Model
from modelkeep.core.errors import AccessError, InputError
from modelkeep.encrypt.functional.authority import Authority
from modelkeep.encrypt.functional.inference import inner_products
from modelkeep.encrypt.functional.scheme import FunctionKey
from modelkeep.encrypt.functional.training import (
    DataOwner,
    EncryptedProducts,
    FirstLayerGradients,
    PlainProducts,
    Products,
    solve_inputs,
    without_inputs,
)
from modelkeep.training import SGD, Recipe, Step, fit
from modelkeep.zoo import datasets

LEVELS, BATCH, UNITS = 15, 8, 4


def cancer() -> tuple[torch.Tensor, Data]:
    """24 records as integers from 0 to 15, and what the server's loop sees: the labels."""
    data = datasets.load("breast-cancer").sample(24)
    low, high = data.x.amin(0), data.x.amax(0)
    x = ((data.x - low) / (high - low) * LEVELS).round().long()
    return x, without_inputs(data)


def train(products: Products, rows: Data, steps: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(30, UNITS), nn.ReLU(), nn.Linear(UNITS, 2))
    model = Model(module, input_shape=(30,), classes=rows.classes, bounds=None)
    recipe = Recipe(steps=steps, batch_size=BATCH, optimizer=SGD(), learning_rate=0.5)
    fit(model, rows, FirstLayerGradients(products, LEVELS), recipe)
    return [parameter.detach().clone() for parameter in module.parameters()]


def encrypted(x: torch.Tensor, reveal_inputs: bool) -> EncryptedProducts:
    examples = Authority(30, group=TOY, reveal_inputs=reveal_inputs)
    batches = Authority(BATCH, group=TOY, reveal_inputs=True)
    return EncryptedProducts(DataOwner(x, LEVELS, examples, batches), examples, batches)


def test_encrypted_and_plain_training_give_the_same_bits() -> None:
    x, rows = cancer()
    found, plain = train(encrypted(x, True), rows, 3), train(PlainProducts(x), rows, 3)
    assert all(torch.equal(one, other) for one, other in zip(found, plain, strict=True))


def test_the_plain_products_give_the_gradient_of_autograd() -> None:
    x, rows = cancer()
    objective = FirstLayerGradients(PlainProducts(x), LEVELS, bits=20)
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(30, UNITS), nn.ReLU(), nn.Linear(UNITS, 2))
    model = Model(module, input_shape=(30,), classes=rows.classes, bounds=None)
    objective.gradients(model, rows.x, rows.y, Step(0, 1, 1, torch.arange(24)))
    found = [parameter.grad for parameter in module.parameters()]
    module.zero_grad()
    torch.autograd.backward(nn.functional.cross_entropy(module(x / LEVELS), rows.y))
    for one, parameter in zip(found, module.parameters(), strict=True):
        torch.testing.assert_close(one, parameter.grad, rtol=1e-3, atol=1e-5)


def test_an_authority_that_protects_the_inputs_ends_the_training() -> None:
    x, rows = cancer()
    with pytest.raises(AccessError, match=r"30 independent functions of 30 features.*29"):
        train(encrypted(x, False), rows, 40)  # four functions a step: not before the eighth


KEPT: list[FunctionKey] = []


class Curious(EncryptedProducts):
    """A server that follows the protocol, and keeps its keys."""

    def forward(self, rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        KEPT.extend(self.examples.keys(weights))
        return super().forward(rows, weights)


def test_a_server_that_trains_long_enough_reads_the_records() -> None:
    """A key of any step opens every example, also one that took no part in the step."""
    x, rows = cancer()
    inner = encrypted(x, True)
    server = Curious(inner.owner, inner.examples, inner.batches)
    KEPT.clear()
    train(server, rows, 10)
    weights = torch.tensor([key.weights for key in KEPT])
    sealed = inner.owner.encrypt_rows(torch.arange(3))
    sums = inner_products(TOY, KEPT, sealed, 127 * 30 * LEVELS)
    assert torch.equal(solve_inputs(weights, sums, LEVELS), x[:3])
    assert inner.examples.revealed == tuple(range(30))


def test_a_network_that_does_not_begin_with_a_dense_layer_is_refused() -> None:
    x, rows = cancer()
    module = nn.Sequential(nn.ReLU(), nn.Linear(30, 2))
    model = Model(module, input_shape=(30,), classes=rows.classes, bounds=None)
    with pytest.raises(InputError, match="begin with a Linear layer"):
        fit(model, rows, FirstLayerGradients(PlainProducts(x), LEVELS), Recipe(steps=1))
