"""How much the network can stretch a change of its input: the verifier's own bounds, found in its own way.

The network is cut into affine blocks. If the value before a block can move by L per unit of the input, then the value
behind it can move by |A| L, where |A| is the norm of the block's linear part A; other steps stretch by their slope,
sums and concatenations as the triangle inequality says. For the logits, K_ij = |row_j - row_i of A| L. Each |A| is
known from both sides: exactly where A is small enough to be decomposed; else there is an upper bound, step by step,
and a lower one by trying vectors. No claim may be below the lower one, and the upper one is what the verifier trusts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .arithmetic import Array, ClaimedOperation
from .network import ClaimedBlock, Network

LARGEST = 3200  # the shorter side of a matrix that is decomposed
ROUNDING = 1e-10  # relative, of such work in float64; added outward
ORDER = {"l2": 2, "linf": np.inf, "l1": 1}

# The largest slope of each activation; for GELU and SiLU it is above 1, as they bend below zero.
_SLOPES = {"sigmoid": 0.25, "selu": 1.7581, "gelu": 1.1290, "gelu_tanh": 1.1290, "silu": 1.0999}


@dataclass(frozen=True)
class Range:
    """A number that lies between `lower` and `upper`."""

    lower: float
    upper: float

    def __mul__(self, other: Range) -> Range:
        return Range(self.lower * other.lower, self.upper * other.upper)


@dataclass(frozen=True)
class Constants:
    """What the verifier found: the norm of each block, by the name of its last step, and K_ij: (m, m)."""

    blocks: dict[str, Range]
    lower: Array
    upper: Array


def constants(network: Network, norm: str) -> Constants:
    """The norms of all blocks, and all K_ij that are composed of them, in the norm of the input."""
    blocks: dict[str, Range] = {}
    reach: dict[str, Range] = {}  # how far a value can move per unit of the input
    sources = network.sources()

    def reached(name: str) -> Range:
        if sources[name] == name:
            return reach[name]
        if name not in blocks:
            blocks[name] = block_norm(ClaimedBlock(network, sources[name], name), norm)
        return reach[sources[name]] * blocks[name]

    for step in network.steps.values():
        if step.kind == "input":
            reach[step.name] = Range(1.0, 1.0)
        elif sources[step.name] == step.name:
            parts = [reached(name) for name in step.inputs]
            own = Range(*(join(step, [getattr(part, side) for part in parts], norm) for side in ("lower", "upper")))
            reach[step.name] = own * Range(slope(step, norm), slope(step, norm))
    start, classes = sources[network.last], math.prod(network.steps[network.last].shape)
    rows = ClaimedBlock(network, start, network.last).transpose(np.eye(classes))
    pairs = np.stack([_dual(rows - row, norm) for row in rows])
    lower, upper = reach[start].lower * (1 - ROUNDING), reach[start].upper * (1 + ROUNDING)
    return Constants(blocks, pairs * lower, pairs * upper)


def join(step: ClaimedOperation, parts: list[float], norm: str) -> float:
    """How far the inputs of a step move together, where each moves by its part."""
    if step.kind == "add":
        return math.fsum(abs(c) * part for c, part in zip(step.settings["coefficients"], parts, strict=True))
    return float(np.linalg.norm(parts, ORDER[norm]))  # a concatenation, or a single one


def slope(step: ClaimedOperation, norm: str) -> float:
    """How much a step that is not affine can stretch a change."""
    if step.kind == "activation":
        own = max(abs(float(step.settings.get(key, 0.0))) for key in ("slope", "alpha"))
        return max(_SLOPES.get(step.settings["function"], 1.0), own)
    if step.kind == "max_pool" and norm != "linf":
        # An input value counts once for each window that holds it: count them, along each axis.
        windows = 1
        for k, s, d, n in zip(
            step.settings["kernel"], step.settings["stride"], step.dilation, step.shape[1:], strict=True
        ):
            held = np.add.outer(s * np.arange(n), d * np.arange(k)).ravel()
            windows *= int(np.bincount(held).max())
        return float(windows) if norm == "l1" else math.sqrt(windows)
    return 1.0  # sorting a group moves values, and never apart


def block_norm(block: ClaimedBlock, norm: str) -> Range:
    """The norm of the block's linear part."""
    if min(block.rows, block.columns) > LARGEST:
        return Range(_try_vectors(block, norm) * (1 - ROUNDING), _step_by_step(block, norm) * (1 + ROUNDING))
    by_rows = block.rows <= block.columns
    if norm == "l2":
        there, back = (block.transpose, block.apply) if by_rows else (block.apply, block.transpose)
        gram = np.concatenate([back(there(unit)) for unit in block.units()])
        exact = math.sqrt(max(0.0, float(np.linalg.eigvalsh(gram)[-1])))
    else:
        parts = (np.abs(block.transpose(unit) if by_rows else block.apply(unit)) for unit in block.units())
        along = by_rows == (norm == "linf")  # the sums wanted are those of the units, or over the units
        sums = [part.sum(axis=1 if along else 0) for part in parts]
        exact = float(np.max([one.max() for one in sums]) if along else np.sum(sums, axis=0).max())
    return Range(exact * (1 - ROUNDING), exact * (1 + ROUNDING))


def _dual(rows: Array, norm: str) -> Array:
    """How much the linear functions in `rows` can change per unit of their argument in the norm."""
    if norm == "l2":
        return np.asarray(np.sqrt((rows**2).sum(axis=1)))
    return np.asarray(np.abs(rows).sum(axis=1) if norm == "linf" else np.abs(rows).max(axis=1))


def _try_vectors(block: ClaimedBlock, norm: str, rounds: int = 40) -> float:
    """A lower bound: what some vectors are stretched by. In l2, the vectors of the power method."""
    if norm == "l2":
        v = np.random.default_rng(0).standard_normal((1, block.columns))
        for _ in range(rounds):
            v = block.transpose(block.apply(v / np.linalg.norm(v)))
        return float(np.linalg.norm(block.apply(v)) / np.linalg.norm(v))
    side = block.rows if norm == "linf" else block.columns
    some = np.linspace(0, side - 1, 64).astype(int)
    unit = (some[:, None] == np.arange(side)).astype(np.float64)
    return float(np.abs(block.transpose(unit) if norm == "linf" else block.apply(unit)).sum(axis=1).max())


def _step_by_step(block: ClaimedBlock, norm: str) -> float:
    """An upper bound: each step's own norm, along the graph from the block's start."""
    gain = {block.start.name: 1.0}
    steps = {step.name: step for step in block.steps}
    for step in block.steps:
        total = join(step, [gain[name] for name in step.inputs], norm) * _own_norm(step, norm)
        merged = _as_convolution(step, steps)
        if merged is not None:
            total = min(total, gain[merged[0]] * _convolution_norm(*merged[1:], norm))
        gain[step.name] = total
    return gain[block.end.name]


def _own_norm(step: ClaimedOperation, norm: str) -> float:
    if step.kind == "dense":
        return float(np.linalg.norm(step.weights["weight"], ORDER[norm]))
    if step.kind == "convolution":
        return _convolution_norm(step.weights["weight"], step, norm)
    if step.kind in ("scale", "batch_norm"):
        return float(np.abs(step.per_channel()[0]).max())
    if step.kind == "average_pool":
        kernel = step.settings["kernel"]
        return _convolution_norm(np.full((1, 1, *kernel), 1 / math.prod(kernel)), step, norm)
    return 1.0  # mean (a little generous), pad, reshape, permute, downsample


def _convolution_norm(weight: Array, step: ClaimedOperation, norm: str) -> float:
    """An upper bound of the norm of a zero-padded convolution `weight: (out, in / groups, *kernel)`.

    Output n of an axis reads the padded input at `stride · n + dilation · tap`. With that position written as
    `stride · (n + q) + phase` the phases become channels and the stride becomes 1. Now let n + q go round a circle as
    long as the part of the input that is read: no tap of a true output wraps around, so the convolution is a part of
    the circular one, and its norm at most that one's, which in the Fourier basis is a matrix per frequency.
    """
    if norm == "linf":
        return float(np.abs(weight).reshape(len(weight), -1).sum(axis=1).max())
    stride, dilation, kernel = step.settings["stride"], step.dilation, weight.shape[2:]
    groups = step.settings.get("groups", 1)
    ends = [s * (n - 1) + d * (k - 1) for s, n, d, k in zip(stride, step.shape[1:], dilation, kernel, strict=True)]
    around = [end // s + 1 for end, s in zip(ends, stride, strict=True)]
    phased = np.zeros((*weight.shape[:2], *stride, *around))
    for tap in np.ndindex(*kernel):
        where = [d * t for d, t in zip(dilation, tap, strict=True)]
        phase = [p % s for p, s in zip(where, stride, strict=True)]
        place = [p // s for p, s in zip(where, stride, strict=True)]
        phased[(slice(None), slice(None), *phase, *place)] += weight[(slice(None), slice(None), *tap)]
    channels = weight.shape[1] * math.prod(stride)
    phased = phased.reshape(groups, len(weight) // groups, channels, *around)
    if norm == "l1":
        return float(np.abs(phased).sum(axis=(1, *range(3, phased.ndim))).max())
    largest = 0.0
    for group in phased:
        symbol = np.fft.fftn(group, axes=range(2, group.ndim)).reshape(*group.shape[:2], -1)
        largest = max(largest, *(float(np.linalg.norm(symbol[..., w], 2)) for w in range(symbol.shape[2])))
    return largest


def _as_convolution(
    step: ClaimedOperation, steps: Mapping[str, ClaimedOperation]
) -> tuple[str, Array, ClaimedOperation] | None:
    """A convolution of scaled channels, then scaled per channel, or added to its own input, is one convolution again.

    The name of its input, its weight, and the step with its other settings; None for all other steps.
    """
    if step.kind == "convolution":
        weight, before = step.weights["weight"].copy(), steps.get(step.inputs[0])
        if before is None or before.kind not in ("scale", "batch_norm"):
            return step.inputs[0], weight, step
        factor = np.broadcast_to(before.per_channel()[0].ravel(), before.shape[:1])
        for out, of in step.groups():
            weight[out] *= factor[of].reshape(-1, *(1 for _ in weight.shape[2:]))
        return before.inputs[0], weight, step
    if step.kind in ("scale", "batch_norm") and step.inputs[0] in steps:
        merged = _as_convolution(steps[step.inputs[0]], steps)
        if merged is None:
            return None
        factor = step.per_channel()[0].reshape(-1, *(1 for _ in merged[1].shape[1:]))
        return merged[0], merged[1] * factor, merged[2]
    if step.kind == "add" and len(step.inputs) == 2:
        for here, there in ((0, 1), (1, 0)):
            merged = _as_convolution(steps[step.inputs[here]], steps) if step.inputs[here] in steps else None
            if merged is None or merged[0] != step.inputs[there]:
                continue
            weight, own = merged[1] * step.settings["coefficients"][here], merged[2]
            shifts = list(zip([p[0] for p in own.settings["padding"]], own.dilation, weight.shape[2:], strict=True))
            if set(own.settings["stride"]) != {1} or any(p % d or p // d >= k for p, d, k in shifts):
                return None
            same, middle = np.arange(len(weight)), [p // d for p, d, _ in shifts]
            weight[(same, same % weight.shape[1], *middle)] += step.settings["coefficients"][there]
            return merged[0], weight, own
    return None
