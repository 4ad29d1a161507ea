"""Work: roughly how much the bounds of a network take, known from its shapes before any of them is computed."""

from __future__ import annotations

import math
from collections.abc import Mapping

from modelkeep.certify.block_bounds import EXACT
from modelkeep.certify.blocks import AffineBlock, Graph
from modelkeep.certify.interpreter import Tensors
from modelkeep.certify.operations import Operation
from modelkeep.certify.trace import tensors_of, trace_operations
from modelkeep.core.model import Model

_COMPLEX = 4  # real products in a complex one
_EIGENVALUES = 2  # the eigenvalues of a matrix take about as long as two products of it with itself


def count_products(model: Model) -> float:
    """About how many products of float64 numbers `lipschitz(model)` computes in ℓ2, the rounding of its pass included.

    >>> from torch import nn
    >>> count_products(Model(nn.Linear(4, 3), input_shape=(4,), classes=3))
    90.0
    """
    graph, tensors = Graph(trace_operations(model)), tensors_of(model.module)
    shapes = {operation.name: operation.shape for operation in graph.operations}
    blocks = sum(_of_block(block, shapes, tensors) for block in graph.blocks)
    # The rounding is bounded operation by operation, apart from the last and from those whose norm is known by then.
    known = {block.name for block in graph.blocks if block.is_one_layer}
    others = (each for each in graph.operations[:-1] if each.name not in known)
    return float(blocks + sum(_of_operation(each, shapes, tensors) for each in others))


def decompose_products(rows: int, columns: int) -> float:
    """The products for the largest singular value of a matrix: its smaller Gram matrix and that one's eigenvalues."""
    short, long = min(rows, columns), max(rows, columns)
    return float(short**2 * long + _EIGENVALUES * short**3)


def _of_block(block: AffineBlock, shapes: Mapping[str, tuple[int, ...]], tensors: Tensors) -> float:
    short = min(block.inputs, block.outputs)
    single = len(block.operations) == 1 and block.operations[0].kind not in ("convolution", "average_pool")
    if single or short > EXACT:
        return sum(_of_operation(each, shapes, tensors) for each in block.operations)
    once = sum(_of_pass(each, tensors) for each in block.operations)
    return 2 * short * once + _EIGENVALUES * short**3


def _of_pass(operation: Operation, tensors: Tensors) -> float:
    """The products of running the operation once."""
    outputs = math.prod(operation.shape)
    if operation.kind in ("dense", "convolution"):
        return float(outputs * tensors[operation.tensors["weight"]][0].numel())
    return float(outputs)


def _of_operation(operation: Operation, shapes: Mapping[str, tuple[int, ...]], tensors: Tensors) -> float:
    """The products of the norm of one operation; what only scales or moves values takes none to speak of."""
    if operation.kind == "dense":
        rows, columns = tensors[operation.tensors["weight"]].shape
        return decompose_products(rows, columns)
    if operation.kind != "convolution":
        return 0.0
    weight, settings = tensors[operation.tensors["weight"]], operation.settings
    groups, stride = settings["groups"], settings["stride"]
    # One matrix per frequency, half of them by symmetry; along an axis whose taps do not reach further than the
    # stride there is one frequency, see `norms._Symbols`.
    frequencies = 1.0
    for size, kernel, step in zip(operation.shape[1:], weight.shape[2:], stride, strict=True):
        frequencies *= size + kernel // step if kernel > step else 1
    half = max(1.0, frequencies / 2)
    each = decompose_products(len(weight) // groups, weight.shape[1] * math.prod(stride))
    return float(half * groups * _COMPLEX * each)
