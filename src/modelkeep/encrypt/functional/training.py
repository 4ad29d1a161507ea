"""Training with encrypted inputs, in the way of CryptoNN (Xu2019): the first layer sees inner products only.

Forward, the server opens the inner product of each encrypted example with each unit's weights. Backward, the gradient
of the first layer's weights is Σ_n δ_nk x_nj: an inner product over the batch. So the owner of the data encrypts the
columns of each batch too, under a second authority, and the server asks for a key per unit's δ. Everything behind the
first layer, and the labels, are in the clear.

What it reveals: new weights are new functions. After ⌈features / units⌉ steps the keys of the forward passes alone
span all features, and the server can solve for every example (`solve_inputs`). An authority that protects the inputs
therefore refuses to go on; training needs `reveal_inputs=True`. A first layer that stays as it is keeps its rank.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.model import Model
from modelkeep.encrypt.functional.authority import Authority
from modelkeep.encrypt.functional.inference import inner_products
from modelkeep.encrypt.functional.scheme import Ciphertext
from modelkeep.training import Step


def without_inputs(data: Data) -> Data:
    """What the server trains with: the labels, and zeros for the inputs."""
    return Data(torch.zeros_like(data.load().x), data.y, data.classes)


class Products(Protocol):
    """Where the server gets the two products from that need the inputs. All are integers."""

    def forward(self, rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """The examples `rows: (n,)` times `weights: (units, features)`, as `(n, units)`."""

    def backward(self, rows: torch.Tensor, errors: torch.Tensor) -> torch.Tensor:
        """`errors: (n, units)`, transposed, times the examples: `(units, features)`."""


@dataclass(frozen=True, eq=False)
class PlainProducts:
    """The products of inputs in the clear, `x: (n, features)`: what encryption is measured against."""

    x: torch.Tensor = field(repr=False)

    def forward(self, rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return self.x[rows] @ weights.T

    def backward(self, rows: torch.Tensor, errors: torch.Tensor) -> torch.Tensor:
        return errors.T @ self.x[rows]


class DataOwner:
    """Holds the examples, and gives out encryptions only. `x: (n, features)` are integers from 0 to `levels`."""

    def __init__(self, x: torch.Tensor, levels: int, examples: Authority, batches: Authority) -> None:
        self._x, self.levels = x, levels
        self._example_key, self._batch_key = examples.public_key(), batches.public_key()
        self._rows: dict[int, Ciphertext] = {}

    def encrypt_rows(self, rows: torch.Tensor) -> list[Ciphertext]:
        """The examples, each encrypted once."""
        for row in rows.tolist():
            if row not in self._rows:
                self._rows[row] = self._example_key.encrypt(self._x[row].tolist())
        return [self._rows[row] for row in rows.tolist()]

    def encrypt_columns(self, rows: torch.Tensor) -> list[Ciphertext]:
        """Each feature of a batch; a batch that is not full is filled up with zeros."""
        columns = torch.zeros(self._x.shape[1], len(self._batch_key.elements), dtype=torch.int64)
        columns[:, : len(rows)] = self._x[rows].T
        return [self._batch_key.encrypt(column.tolist()) for column in columns]


@dataclass(frozen=True, eq=False)
class EncryptedProducts:
    """The products of encrypted inputs, with keys of two authorities: for examples, and for columns of batches."""

    owner: DataOwner
    examples: Authority
    batches: Authority

    def forward(self, rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        keys = self.examples.keys(weights)
        bound = int(weights.abs().sum(1).max()) * self.owner.levels
        return inner_products(self.examples.group, keys, self.owner.encrypt_rows(rows), bound)

    def backward(self, rows: torch.Tensor, errors: torch.Tensor) -> torch.Tensor:
        padded = torch.zeros(errors.shape[1], self.batches.features, dtype=torch.int64)
        padded[:, : len(rows)] = errors.T
        keys = self.batches.keys(padded)
        bound = int(padded.abs().sum(1).max()) * self.owner.levels
        return inner_products(self.batches.group, keys, self.owner.encrypt_columns(rows), bound).T


@dataclass(frozen=True, eq=False)
class FirstLayerGradients:
    """The objective of the one loop: cross-entropy, where the first layer knows its inputs through `products` only.

    The network is an `nn.Sequential` that begins with a Linear layer on encoded inputs q / levels. What the loop feeds
    as x is not looked at: `without_inputs` makes such data. Weights and errors are rounded to `bits` bits, so that
    plain and encrypted products give the same integers and the same training, bit for bit.
    """

    products: Products = field(repr=False)
    levels: int
    bits: int = 8
    name: str = "first layer under functional encryption"

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        return self.gradients(model, x, y, step)

    def gradients(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        """Leave the gradients in the parameters; the mean loss of the batch."""
        first, *rest = model.module.children()
        if not isinstance(first, nn.Linear) or first.bias is None:
            raise InputError("The network must begin with a Linear layer with a bias: it is the one that is encrypted.")
        weights, unit = _rounded(first.weight.detach(), self.bits)
        sums = self.products.forward(step.index, weights).to(first.weight.dtype) * (unit / self.levels)
        sums = (sums + first.bias.detach()).requires_grad_()
        values = sums
        for part in rest:
            values = part(values)
        loss = cross_entropy(values, y)
        torch.autograd.backward(loss)
        assert sums.grad is not None
        errors, unit = _rounded(sums.grad, self.bits)
        products = self.products.backward(step.index, errors)
        first.weight.grad = products.to(first.weight.dtype) * (unit / self.levels)
        first.bias.grad = sums.grad.sum(0)
        return loss


def solve_inputs(weights: torch.Tensor, sums: torch.Tensor, levels: int) -> torch.Tensor:
    """The attack: examples from their products `sums: (n, functions)` with known `weights: (functions, features)`.

    Least squares, rounded into 0 … levels. It is exact as soon as there are as many independent functions as features.
    """
    found: torch.Tensor = torch.linalg.lstsq(weights.double(), sums.double().T, driver="gelsd").solution.T
    return found.round().clamp(0, levels).long()


def _rounded(values: torch.Tensor, bits: int) -> tuple[torch.Tensor, float]:
    """Integers below 2^(bits - 1) in magnitude, and what one of them stands for."""
    most = 2 ** (bits - 1) - 1
    unit = max(float(values.abs().max()), 1e-12) / most
    return (values / unit).round().long(), unit
