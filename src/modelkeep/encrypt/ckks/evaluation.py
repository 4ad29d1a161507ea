"""Evaluation: a plan as a program. Weights are encoded once, and then only ciphertexts move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from modelkeep.core import progress
from modelkeep.core.errors import EncryptError
from modelkeep.encrypt.ckks.affine import Affine
from modelkeep.encrypt.ckks.arithmetic import Arithmetic
from modelkeep.encrypt.ckks.packing import Diagonals, Gather
from modelkeep.encrypt.ckks.scheme import Floats, Scheme, seal

SMALLEST = 0.5  # in units of one over the scale; what is below is encoded as zero, and SEAL refuses products with zero


class Program(Protocol):
    """What runs on a server: ciphertexts in, ciphertexts out."""

    ciphertexts: int
    """How many ciphertexts an input has."""

    def run(self, arithmetic: Arithmetic, inputs: Sequence[Any]) -> list[Any]:
        """The encrypted answers."""
        ...


class SingleProgram:
    """One sample: the first layer by gathering, the others by diagonals."""

    def __init__(self, scheme: Scheme, maps: Sequence[Affine], first: Gather, later: Sequence[Diagonals]) -> None:
        self.ciphertexts = len(first.index)
        self._scheme = scheme
        self._first = first
        self._later = later
        scale = scheme.parameters.scale  # what a product with a plaintext has in the end, and what is squared then
        self._factors = [self._vector(row, 0, float(scheme.prime(0))) for row in first.factors(maps[0].weight)]
        self._biases = []
        self._diagonals = []
        for position, affine in enumerate(maps):
            period = first.period if position == 0 else later[position - 1].period
            bias = np.zeros(period)
            bias[: len(affine.bias)] = affine.bias
            self._biases.append(self._vector(bias, 2 * position + 1, scale))
            if position:
                level = 2 * position
                squared = scale**2 / scheme.prime(level - 1)
                factor = scale * scheme.prime(level) / squared
                self._diagonals.append([self._vector(values, level, factor) for values in later[position - 1].values])
        if not any(factor is not None for factor in self._factors):
            raise EncryptError(f"The weights of layer '{maps[0].name}' are all zero.")

    def run(self, arithmetic: Arithmetic, inputs: Sequence[Any]) -> list[Any]:
        """One ciphertext, in every slot of which is a logit or zero."""
        require_count(inputs, self.ciphertexts)
        products = [
            arithmetic.multiply_plain(ciphertext, factor)
            for ciphertext, factor in zip(inputs, self._factors, strict=True)
            if factor is not None
        ]
        values = arithmetic.rescale(_sum(arithmetic, products))
        values = arithmetic.sum_rotations(values, self._first.steps)
        self._add_bias(values, 0)
        for position, layer in enumerate(self._later, start=1):
            values = self._apply(arithmetic, arithmetic.square(values), layer, self._diagonals[position - 1])
            self._add_bias(values, position)
        return [values]

    def _apply(self, arithmetic: Arithmetic, vector: Any, layer: Diagonals, encoded: Sequence[Any]) -> Any:
        turned = [vector, *(arithmetic.rotate(vector, step) for step in range(1, min(layer.baby, len(encoded))))]
        groups = []
        for group in range(layer.groups):
            part = encoded[group * layer.baby : (group + 1) * layer.baby]
            products = [arithmetic.multiply_plain(turned[b], each) for b, each in enumerate(part) if each is not None]
            if products:
                total = _sum(arithmetic, products)
                groups.append(arithmetic.rotate(total, group * layer.baby) if group else total)
        if not groups:
            raise EncryptError("A layer's weights are all zero.")
        return arithmetic.sum_rotations(arithmetic.rescale(_sum(arithmetic, groups)), layer.sums)

    def _vector(self, values: Floats, level: int, scale: float) -> Any:
        """The values again and again over all slots; None where all would be encoded as zero."""
        if float(np.abs(values).max()) * scale < SMALLEST:
            return None
        return self._scheme.encode(np.tile(values, self._scheme.slots // len(values)), level=level, scale=scale)

    def _add_bias(self, values: Any, position: int) -> None:
        if self._biases[position] is not None:
            self._scheme.evaluator.add_plain_inplace(values, self._biases[position])


class PackedProgram:
    """Many samples: one ciphertext per value, one slot per sample. Weights are numbers, and nothing is rotated."""

    def __init__(self, scheme: Scheme, maps: Sequence[Affine]) -> None:
        self.ciphertexts = maps[0].weight.shape[1]
        self._scheme = scheme
        self._maps = maps

    def run(self, arithmetic: Arithmetic, inputs: Sequence[Any]) -> list[Any]:
        """One ciphertext per class."""
        require_count(inputs, self.ciphertexts)
        values = list(inputs)
        with progress.task("encrypted layers", total=sum(len(affine.bias) for affine in self._maps)) as task:
            for position, affine in enumerate(self._maps):
                if position:
                    values = [arithmetic.square(value) for value in values]
                found = []
                for weights, bias in zip(affine.weight, affine.bias, strict=True):
                    found.append(self._unit(arithmetic, values, weights, float(bias)))
                    task.advance()
                values = found
        return values

    def _unit(self, arithmetic: Arithmetic, values: Sequence[Any], weights: Floats, bias: float) -> Any:
        level, factor = self._scheme.level(values[0]), arithmetic.factor_scale(values[0])
        used = np.flatnonzero(np.abs(weights) * factor >= SMALLEST)
        if not len(used):  # SEAL refuses to multiply by zero; one over the scale is as close as it gets
            weights, used = np.full_like(weights, 1 / factor), np.array([0])
        evaluator = self._scheme.evaluator
        total, product = seal.Ciphertext(), seal.Ciphertext()
        for count, position in enumerate(used.tolist()):
            weight = self._scheme.encode(float(weights[position]), level=level, scale=factor)
            evaluator.multiply_plain(values[position], weight, product if count else total)
            if count:
                evaluator.add_inplace(total, product)
        return arithmetic.add_plain(arithmetic.rescale(total), bias)


def require_count(inputs: Sequence[Any], wanted: int) -> None:
    """Refuse an input of another number of ciphertexts than the plan has."""
    if len(inputs) != wanted:
        raise EncryptError(f"The plan takes {wanted} ciphertexts. Got {len(inputs)}.")


def _sum(arithmetic: Arithmetic, ciphertexts: Sequence[Any]) -> Any:
    total = ciphertexts[0]
    for each in ciphertexts[1:]:
        arithmetic.scheme.evaluator.add_inplace(total, each)
    return total
