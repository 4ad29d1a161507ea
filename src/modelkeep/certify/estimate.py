"""The running estimate of the margin constants that drives training. It is not a bound and certifies nothing.

The power method finds an operator norm from below. Its iterate is kept from step to step, so that a few iterations
per step follow the weights (Leino2022, section 6.3.3); dense layers get the exact solver, whose gradient is better.
"""

from __future__ import annotations

from typing import Any

import torch

from modelkeep.certify.blocks import AffineBlock, Graph
from modelkeep.certify.interpreter import run, without_signs
from modelkeep.certify.trace import tensors_of, trace_operations
from modelkeep.core.errors import InputError
from modelkeep.core.model import Model
from modelkeep.core.norms import Norm

_ITERATIONS = 2
_FIRST = 20  # iterations of the first call, which starts anywhere
_EXACT = 1024  # the longest short side of a dense layer that is solved exactly at each step


class MarginEstimate:
    """K_ij as a function of the model's weights, with gradients. Make it once per training, and ask it at each step.

    >>> from torch import nn
    >>> model = Model(nn.Linear(2, 2), input_shape=(2,), classes=("a", "b"))
    >>> MarginEstimate(model).margins().requires_grad
    True
    """

    def __init__(self, model: Model, norm: Norm = "l2") -> None:
        with model.frozen(seed=0):  # the network as it will be deployed, also in the middle of a training
            self._graph = Graph(trace_operations(model))
        self._tensors = tensors_of(model.module)
        self._norm = norm
        self._one = torch.ones((), device=model.device, dtype=model.dtype)
        self._iterates: dict[str, torch.Tensor] = {}

    def margins(self) -> torch.Tensor:
        """The estimate `(m, m)` for the weights as they are now; 0 on the diagonal."""
        gains = self._graph.gains(self._norm, self._gain, self._one)
        last = self._graph.block(self._graph.operations[-1].name)
        if last is None:
            raise InputError("Certified training needs a network that ends with an affine layer, such as a dense one.")
        rows = self._rows(last)
        apart = 1 - torch.eye(len(rows), dtype=rows.dtype, device=rows.device)
        if self._norm == "l2":
            gram = rows @ rows.T
            squares = gram.diagonal()[:, None] + gram.diagonal() - 2 * gram
            # Not below a tiny number: the root has no gradient at 0, where two rows are the same.
            distances = squares.clamp_min(1e-12).sqrt()
        else:
            difference = (rows[:, None] - rows[None, :]).abs()
            distances = difference.sum(dim=2) if self._norm == "linf" else difference.amax(dim=2)
        return gains[last.source] * distances * apart

    def _rows(self, last: AffineBlock) -> torch.Tensor:
        """The linear map from the last source to the logits, `(m, numbers)`."""
        if [operation.kind for operation in last.operations] in (["dense"], ["reshape", "dense"]):
            return self._tensors[last.operations[-1].tensors["weight"]]
        eye = torch.eye(last.outputs, device=self._one.device, dtype=self._one.dtype)
        return last.apply_transpose(eye, self._tensors).flatten(1)

    def _gain(self, block: AffineBlock) -> torch.Tensor:
        if block.name == self._graph.operations[-1].name:
            return self._one  # its rows are taken instead
        if self._norm != "l2":
            return self._absolute(block)
        weight = _dense(block, self._tensors)
        with torch.no_grad():
            v = self._iterate(block) if weight is None else _leading_vector(weight)
        length: torch.Tensor = torch.linalg.vector_norm(
            block.apply_linear(v, self._tensors) if weight is None else weight @ v
        )
        return length

    def _iterate(self, block: AffineBlock) -> torch.Tensor:
        """The kept iterate `(1, *shape)` of length one, some power iterations later."""
        v = self._iterates.get(block.name)
        iterations = _ITERATIONS
        if v is None:
            # Noise, not ones: a layer whose rows sum to zero maps ones to zero.
            noise = torch.randn(1, *block.shape, generator=torch.Generator().manual_seed(0))
            v, iterations = noise.to(self._one), _FIRST
        for _ in range(iterations):
            v = block.apply_transpose(block.apply_linear(v, self._tensors), self._tensors)
            v = v / torch.linalg.vector_norm(v).clamp_min(1e-30)
        self._iterates[block.name] = v
        return v

    def _absolute(self, block: AffineBlock) -> torch.Tensor:
        """The largest row sum (ℓ∞) or column sum (ℓ1) of absolute weights: exact for a block of one operation."""
        absolute = AffineBlock(block.source, block.shape, tuple(map(without_signs, block.operations)))
        signed = [o.tensors[name] for o in block.operations for name in ("weight", "factor") if name in o.tensors]
        tensors = {**self._tensors, **{key: self._tensors[key].abs() for key in signed}}
        if self._norm == "linf":
            ones = torch.ones(1, *block.shape, device=self._one.device, dtype=self._one.dtype)
            return run(absolute.operations, ones, tensors, start=block.source, constants=False)[block.name].max()
        ones = torch.ones(1, *block.operations[-1].shape, device=self._one.device, dtype=self._one.dtype)
        return absolute.apply_transpose(ones, tensors).max()

    def state_dict(self) -> dict[str, Any]:
        """The iterates, for a checkpoint."""
        return dict(self._iterates)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from these iterates."""
        self._iterates = {name: v.to(self._one) for name, v in state.items()}


def _dense(block: AffineBlock, tensors: dict[str, torch.Tensor]) -> torch.Tensor | None:
    """The weight of a block that is one dense layer on a vector, of a size to be solved exactly."""
    kinds = [operation.kind for operation in block.operations]
    if kinds not in (["dense"], ["reshape", "dense"]) or len(block.operations[-1].shape) > 1:
        return None
    weight = tensors[block.operations[-1].tensors["weight"]]
    return weight if min(weight.shape) <= _EXACT else None


def _leading_vector(weight: torch.Tensor) -> torch.Tensor:
    """The right singular vector of the largest singular value, by the eigenvectors of the smaller Gram matrix."""
    wide = len(weight) <= weight.shape[1]
    _, vectors = torch.linalg.eigh(weight @ weight.T if wide else weight.T @ weight)
    v = weight.T @ vectors[:, -1] if wide else vectors[:, -1]
    unit: torch.Tensor = v / torch.linalg.vector_norm(v).clamp_min(1e-30)
    return unit
