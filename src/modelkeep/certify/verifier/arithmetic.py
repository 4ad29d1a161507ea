"""The operations of a written-down network, computed in float64 with nothing but numpy.

Each kind is a few lines, and each affine one has its transpose beside it, which the bounds in `constants.py` need.
Values have the batch first, `(n, channels, ...)`; the shapes of operations are without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ClaimedOperation:
    """One operation with its weights in float64. Without `constants` (biases, offsets) an affine one is linear."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    shape: tuple[int, ...]
    settings: Mapping[str, Any]
    weights: Mapping[str, Array]
    constants: bool = True

    @property
    def affine(self) -> bool:
        return self.kind in TRANSPOSES

    def constant(self, role: str) -> Array | float:
        """A weight that is added, or 0."""
        return self.weights.get(role, 0.0) if self.constants else 0.0

    def per_channel(self) -> tuple[Array, Array]:
        """Factor and offset of a `scale` or `batch_norm`, shaped to go with an example."""
        if self.kind == "batch_norm":
            factor = self.weights.get("weight", 1.0) / np.sqrt(self.weights["variance"] + self.settings["eps"])
            offset = self.weights.get("bias", 0.0) - self.weights["mean"] * factor
        else:
            factor, offset = (self.weights.get(role, self.settings.get(role)) for role in ("factor", "offset"))
        column = (-1,) + (1,) * (len(self.shape) - 1)
        return np.asarray(factor, np.float64).reshape(column), np.asarray(offset, np.float64).reshape(column)

    @property
    def dilation(self) -> Sequence[int]:
        return list(self.settings.get("dilation", [1] * len(self.settings["stride"])))

    def meet(self, kernel: Sequence[int], padded: Array) -> Iterator[Array]:
        """Per tap of the kernel, in their order, the padded values that it meets: at stride · output + dilation · tap.

        They are views: what is written to them is written to `pad`.
        """
        axes = list(zip(self.settings["stride"], self.dilation, kernel, self.shape[1:], strict=True))
        for (s, d, k, n), size in zip(axes, padded.shape[2:], strict=True):
            if min(s, d, k, n) < 1 or (size - d * (k - 1) - 1) // s + 1 != n:
                raise ValueError(f"{size} values give not {n} windows of {k} with stride {s} and dilation {d}")
        for tap in np.ndindex(*kernel):
            at = (slice(d * t, d * t + s * (n - 1) + 1, s) for t, (s, d, _, n) in zip(tap, axes, strict=True))
            where: Any = (..., *at)
            yield padded[where]

    def pad(self, z: Array, fill: float = 0.0) -> Array:
        around = [(0, 0)] * (z.ndim - len(self.settings["padding"])) + [tuple(p) for p in self.settings["padding"]]
        return np.pad(z, around, constant_values=fill)

    def unpad(self, z: Array) -> Array:
        sizes = z.shape[-len(self.settings["padding"]) :]
        inner: Any = (..., *(slice(p[0], n - p[1]) for p, n in zip(self.settings["padding"], sizes, strict=True)))
        return np.asarray(z[inner])

    def groups(self) -> Iterator[tuple[slice, slice]]:
        """Which output channels of a convolution read which input channels."""
        (out, of), groups = self.weights["weight"].shape[:2], self.settings["groups"]
        for g in range(groups):
            yield slice(g * out // groups, (g + 1) * out // groups), slice(g * of, (g + 1) * of)


def _convolution(step: ClaimedOperation, z: Array) -> Array:
    weight, padded, made = step.weights["weight"], step.pad(z), np.zeros((len(z), *step.shape))
    flat = weight.reshape(*weight.shape[:2], -1)
    for tap, met in enumerate(step.meet(weight.shape[2:], padded)):
        for out, of in step.groups():
            made[:, out] += _mix(flat[out, :, tap], met[:, of])
    return np.asarray(made + np.reshape(step.constant("bias"), (-1,) + (1,) * (len(step.shape) - 1)))


def _convolution_transposed(step: ClaimedOperation, u: Array, shape: tuple[int, ...]) -> Array:
    weight, padded = step.weights["weight"], step.pad(np.zeros((len(u), *shape)))
    flat = weight.reshape(*weight.shape[:2], -1)
    for tap, met in enumerate(step.meet(weight.shape[2:], padded)):
        for out, of in step.groups():
            met[:, of] += _mix(flat[out, :, tap].T, u[:, out])
    return step.unpad(padded)


def _mix(matrix: Array, z: Array) -> Array:
    """The matrix times the channels, at each place."""
    return (matrix @ z.reshape(*z.shape[:2], -1)).reshape(len(z), len(matrix), *z.shape[2:])


def _average_pool(step: ClaimedOperation, z: Array) -> Array:
    kernel = step.settings["kernel"]
    return np.asarray(sum(step.meet(kernel, step.pad(z))) / math.prod(kernel))


def _average_pool_transposed(step: ClaimedOperation, u: Array, shape: tuple[int, ...]) -> Array:
    kernel, padded = step.settings["kernel"], step.pad(np.zeros((len(u), *shape)))
    for met in step.meet(kernel, padded):
        met += u / math.prod(kernel)
    return step.unpad(padded)


def _max_pool(step: ClaimedOperation, z: Array) -> Array:
    return np.asarray(np.maximum.reduce([*step.meet(step.settings["kernel"], step.pad(z, fill=-np.inf))]))


def _scale(step: ClaimedOperation, z: Array) -> Array:
    factor, offset = step.per_channel()
    return z * factor + (offset if step.constants else 0.0)


def _behind_batch(step: ClaimedOperation) -> tuple[int, ...]:
    return tuple(axis + 1 for axis in step.settings["axes"])


def _mean(step: ClaimedOperation, z: Array) -> Array:
    return np.asarray(z.mean(axis=_behind_batch(step), keepdims=bool(step.settings.get("keep", False))))


def _mean_transposed(step: ClaimedOperation, u: Array, shape: tuple[int, ...]) -> Array:
    kept = tuple(1 if axis in step.settings["axes"] else size for axis, size in enumerate(shape))
    count = math.prod(shape[axis] for axis in step.settings["axes"])
    return np.broadcast_to(u.reshape(len(u), *kept) / count, (len(u), *shape))


def _downsample(step: ClaimedOperation, z: Array) -> Array:
    f, (n, c, h, w) = step.settings["factor"], z.shape
    return z.reshape(n, c, h // f, f, w // f, f).transpose(0, 1, 3, 5, 2, 4).reshape(n, c * f * f, h // f, w // f)


def _downsample_transposed(step: ClaimedOperation, u: Array, shape: tuple[int, ...]) -> Array:
    f, (c, h, w) = step.settings["factor"], shape
    return u.reshape(len(u), c, f, f, h // f, w // f).transpose(0, 1, 4, 2, 5, 3).reshape(len(u), *shape)


def _group_sort(step: ClaimedOperation, z: Array) -> Array:
    grouped = z.reshape(len(z), -1, step.settings["size"], *z.shape[2:])
    return -np.sort(-grouped, axis=2).reshape(z.shape)


def _activation(step: ClaimedOperation, z: Array) -> Array:
    return np.asarray(ACTIVATIONS[step.settings["function"]](z, step.settings))


def _concatenate_transposed(step: ClaimedOperation, u: Array, shapes: list[tuple[int, ...]]) -> list[Array]:
    axis = step.settings["axis"]
    return np.split(u, np.cumsum([shape[axis] for shape in shapes])[:-1], axis=axis + 1)


def _sigmoid(z: Array) -> Array:
    return np.asarray(0.5 * (1 + np.tanh(z / 2)))


_erf = np.vectorize(math.erf, otypes=[np.float64])
_SELU = (1.0507009873554804934193349852946, 1.6732632423543772848170429916717)

ACTIVATIONS: Mapping[str, Callable[[Array, Mapping[str, Any]], Array]] = {
    "relu": lambda z, _: np.maximum(z, 0),
    "relu6": lambda z, _: np.clip(z, 0, 6),
    "leaky_relu": lambda z, s: np.where(z > 0, z, s["slope"] * z),
    "elu": lambda z, s: np.where(z > 0, z, s["alpha"] * np.expm1(np.minimum(z, 0))),
    "selu": lambda z, _: _SELU[0] * np.where(z > 0, z, _SELU[1] * np.expm1(np.minimum(z, 0))),
    "softplus": lambda z, _: np.where(z > 20, z, np.log1p(np.exp(np.minimum(z, 20)))),
    "tanh": lambda z, _: np.tanh(z),
    "sigmoid": lambda z, _: _sigmoid(z),
    "hardtanh": lambda z, s: np.clip(z, s["low"], s["high"]),
    "softsign": lambda z, _: z / (1 + np.abs(z)),
    "abs": lambda z, _: np.abs(z),
    "gelu": lambda z, _: z * 0.5 * (1 + _erf(z / math.sqrt(2))),
    "gelu_tanh": lambda z, _: z * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))),
    "silu": lambda z, _: z * _sigmoid(z),
}

ALIKE = ("batch_norm", "scale", "add", "activation", "group_sort")
"""The kinds whose inputs have the shape of the output."""

FORWARD: Mapping[str, Callable[[ClaimedOperation, list[Array]], Array]] = {
    "dense": lambda step, z: z[0] @ step.weights["weight"].T + step.constant("bias"),
    "convolution": lambda step, z: _convolution(step, z[0]),
    "batch_norm": lambda step, z: _scale(step, z[0]),
    "scale": lambda step, z: _scale(step, z[0]),
    "average_pool": lambda step, z: _average_pool(step, z[0]),
    "mean": lambda step, z: _mean(step, z[0]),
    "pad": lambda step, z: step.pad(z[0]),
    "reshape": lambda step, z: z[0].reshape(len(z[0]), *step.shape),
    "permute": lambda step, z: z[0].transpose(0, *_behind_batch(step)),
    "downsample": lambda step, z: _downsample(step, z[0]),
    "add": lambda step, z: np.asarray(sum(c * v for c, v in zip(step.settings["coefficients"], z, strict=True))),
    "concatenate": lambda step, z: np.concatenate(z, axis=step.settings["axis"] + 1),
    "activation": lambda step, z: _activation(step, z[0]),
    "group_sort": lambda step, z: _group_sort(step, z[0]),
    "max_pool": lambda step, z: _max_pool(step, z[0]),
}
"""What each kind makes of its inputs."""

TRANSPOSES: Mapping[str, Callable[[ClaimedOperation, Array, list[tuple[int, ...]]], list[Array]]] = {
    "dense": lambda step, u, _: [u @ step.weights["weight"]],
    "convolution": lambda step, u, shapes: [_convolution_transposed(step, u, shapes[0])],
    "batch_norm": lambda step, u, _: [u * step.per_channel()[0]],
    "scale": lambda step, u, _: [u * step.per_channel()[0]],
    "average_pool": lambda step, u, shapes: [_average_pool_transposed(step, u, shapes[0])],
    "mean": lambda step, u, shapes: [_mean_transposed(step, u, shapes[0])],
    "pad": lambda step, u, _: [step.unpad(u)],
    "reshape": lambda _, u, shapes: [u.reshape(len(u), *shapes[0])],
    "permute": lambda step, u, _: [u.transpose(0, *(1 + np.argsort(step.settings["axes"])))],
    "downsample": lambda step, u, shapes: [_downsample_transposed(step, u, shapes[0])],
    "add": lambda step, u, _: [c * u for c in step.settings["coefficients"]],
    "concatenate": _concatenate_transposed,
}
"""What the affine kinds' linear parts, transposed, make of one value: one array per input."""
