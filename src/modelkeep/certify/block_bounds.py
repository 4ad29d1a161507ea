"""Sound upper bounds of blocks: exact where the map is small enough to be decomposed, else operation by operation."""

from __future__ import annotations

import math

import torch

from modelkeep.certify.blocks import AffineBlock, combine_gains
from modelkeep.certify.interpreter import Tensors, channel_scale
from modelkeep.certify.kernels import Windows, as_kernel
from modelkeep.certify.norms import convolution_norm, convolution_norms_1_inf, gram_norm, matrix_norm, schur
from modelkeep.certify.operations import Operation
from modelkeep.core.norms import Norm

# A block with at most this many numbers on its smaller side is decomposed: seconds, and exact. Beyond, the symbol of a
# convolution takes a tenth of a second and is about 1 % too large on images of 7 x 7, less on larger ones.
EXACT = 2048
_AT_ONCE = 1 << 24  # numbers of a batch of unit vectors and what becomes of them


def block_norm(block: AffineBlock, tensors: Tensors, norm: Norm) -> float:
    """At least the operator norm of the block's linear part, in `norm` on both sides; float64, rounded outwards."""
    if len(block.operations) == 1 and (norm != "l2" or block.operations[0].kind not in ("convolution", "average_pool")):
        return _stepwise(block, tensors, norm)  # exact already
    if min(block.inputs, block.outputs) <= EXACT:
        if norm == "l2":
            return _spectral(block, tensors)
        return matrix_norm(block_matrix(block, tensors), norm) + matrix_error(block, tensors, norm)
    if len(block.operations) > 1 and (kernel := as_kernel(block, tensors)) is not None:
        windows = kernel.windows(block.shape, block.operations[-1].shape)
        return _convolution(kernel.weight, windows, block.shape, norm) + matrix_error(block, tensors, norm)
    return _stepwise(block, tensors, norm)


def matrix_error(block: AffineBlock, tensors: Tensors, norm: Norm) -> float:
    """How far the block's matrix, put together in float64, can be from the exact one, in `norm`.

    Relative to what is summed: where branches nearly cancel, that is far more than what is left of them.
    """
    one, infinity = (_stepwise(block, tensors, each) for each in ("l1", "linf"))
    summed = {"l1": one, "linf": infinity, "l2": schur(one, infinity)}[norm]
    terms = block.inputs + sum(math.prod(operation.shape) + 32 for operation in block.operations)
    return 8 * terms * torch.finfo(torch.float64).eps * summed


def block_matrix(block: AffineBlock, tensors: Tensors) -> torch.Tensor:
    """The matrix of the block's linear part, `(outputs, inputs)` in float64."""
    if block.outputs <= block.inputs:
        return torch.cat([block.apply_transpose(u, tensors).flatten(1) for u in _units(block, rows=True)])
    return torch.cat([block.apply_linear(v, tensors).flatten(1) for v in _units(block, rows=False)]).T


def _spectral(block: AffineBlock, tensors: Tensors) -> float:
    """The largest singular value by the smaller Gram matrix, which is built without the matrix itself."""
    if block.outputs <= block.inputs:
        rows = [block.apply_linear(block.apply_transpose(u, tensors), tensors) for u in _units(block, rows=True)]
    else:
        rows = [block.apply_transpose(block.apply_linear(v, tensors), tensors) for v in _units(block, rows=False)]
    gram = torch.cat([row.flatten(1) for row in rows])
    absolute = schur(_stepwise(block, tensors, "l1"), _stepwise(block, tensors, "linf"))
    return gram_norm((gram + gram.T) / 2, 2 * absolute * matrix_error(block, tensors, "l2"))


def _units(block: AffineBlock, rows: bool) -> list[torch.Tensor]:
    """The unit vectors of the output (rows) or of the input, in batches of a bounded size."""
    shape = block.operations[-1].shape if rows else block.shape
    widest = max(block.inputs, *(math.prod(operation.shape) for operation in block.operations))
    units = torch.eye(math.prod(shape), dtype=torch.float64).view(-1, *shape)
    return list(torch.split(units, max(1, _AT_ONCE // widest)))


def _stepwise(block: AffineBlock, tensors: Tensors, norm: Norm) -> float:
    """The bound from the norms of the single operations: products along a path, sums over paths."""
    reached, shapes = {block.source: 1.0}, {block.source: block.shape}
    for operation in block.operations:
        given = [reached[name] for name in operation.inputs]
        shapes[operation.name] = operation.shape
        own = operation_norm(operation, shapes[operation.inputs[0]], tensors, norm)
        reached[operation.name] = combine_gains(operation, given, norm) if own is None else given[0] * own
    return reached[block.name]


def operation_norm(operation: Operation, shape: tuple[int, ...], tensors: Tensors, norm: Norm) -> float | None:
    """At least the norm of one affine operation on an input of `shape`; None for those that `combine_gains` knows."""
    settings = operation.settings
    match operation.kind:
        case "dense":
            return matrix_norm(tensors[operation.tensors["weight"]].double(), norm)
        case "convolution":
            weight = tensors[operation.tensors["weight"]].double()
            windows = settings["stride"], settings["padding"], settings["dilation"], settings["groups"]
            return _convolution(weight, windows, shape, norm)
        case "average_pool":
            # The same on every channel, so that of one channel is that of all.
            weight = torch.full((1, 1, *settings["kernel"]), 1 / math.prod(settings["kernel"]), dtype=torch.float64)
            windows = settings["stride"], settings["padding"], [1] * len(settings["kernel"]), 1
            return _convolution(weight, windows, (1, *shape[1:]), norm)
        case "batch_norm" | "scale":
            like = torch.zeros(1, *shape, dtype=torch.float64)
            return float(channel_scale(operation, tensors, like)[0].abs().max()) * (1 + 1e-12)
        case "mean":
            count = float(math.prod(shape[axis] for axis in settings["axes"]))
            return {"l2": 1 / math.sqrt(count), "linf": 1.0, "l1": 1 / count}[norm] * (1 + 1e-12)
    return None


def _convolution(weight: torch.Tensor, windows: Windows, shape: tuple[int, ...], norm: Norm) -> float:
    if norm == "l2":
        return convolution_norm(weight, *windows, shape)
    one, infinity = convolution_norms_1_inf(weight, *windows, shape)
    return one if norm == "l1" else infinity
