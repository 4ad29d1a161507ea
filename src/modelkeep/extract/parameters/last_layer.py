"""From hyperplanes to a network: the last layer by least squares, and which side of each hyperplane is on."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from modelkeep.extract.parameters.oracle import Array, Unrecoverable

_MOST_TRIED = 16  # units whose signs are tried one by one where the linear part leaves them open: 2^16 cases


@dataclass(frozen=True, eq=False)
class Network:
    """logits = last · relu(first · x + first_bias) + last_bias, one hidden layer, rows of `first` of length one."""

    first: Array  # (units, width)
    first_bias: Array  # (units,)
    last: Array  # (classes, units)
    last_bias: Array  # (classes,)

    def logits(self, x: Array) -> Array:
        """Centred logits (n, classes)."""
        return np.maximum(x @ self.first.T + self.first_bias, 0) @ self.last.T + self.last_bias

    @property
    def parameters(self) -> int:
        """How many numbers the network has."""
        return self.first.size + self.first_bias.size + self.last.size + self.last_bias.size


def fit(planes: Array, x: Array, y: Array) -> Network:
    """The network whose units switch at `planes: (units, width + 1)` and that answers `x` with `y`.

    Whatever side is taken for on, relu(−z) = relu(z) − z: the wrong sides leave a linear part −Σ v_i (w_i·x + b_i) over
    the units to turn around. It is fitted beside the units, and tells which these are.
    """
    units, width = len(planes), planes.shape[1] - 1
    ones = np.ones((len(x), 1))
    active = np.maximum(np.concatenate([x, ones], axis=1) @ planes.T, 0)
    solved = _least_squares(np.concatenate([active, x, ones], axis=1), y)  # (units + width + 1, classes)
    last, linear = solved[:units].T, solved[units : units + width].T
    turned = _find_turned(last, planes[:, :width], -linear)
    planes = np.where(turned[:, None], -planes, planes)
    active = np.maximum(np.concatenate([x, ones], axis=1) @ planes.T, 0)
    solved = _least_squares(np.concatenate([active, ones], axis=1), y)
    return Network(planes[:, :width], planes[:, width], solved[:units].T, solved[units])


def _least_squares(design: Array, y: Array) -> Array:
    """Columns are scaled to one size, so that far units and near inputs weigh alike."""
    scale = np.linalg.norm(design, axis=0)
    scale[scale == 0] = 1
    return np.asarray(np.linalg.lstsq(design / scale, y, rcond=None)[0] / scale[:, None])


def _find_turned(last: Array, first: Array, linear: Array) -> NDArray[np.bool_]:
    """The units to turn around: the subset whose v_i w_iᵀ sum to `linear: (classes, width)`."""
    units = len(first)
    parts = np.einsum("ci,iw->cwi", last, first).reshape(-1, units)
    scale = np.linalg.norm(parts, axis=0)
    parts, wanted = parts / scale, linear.reshape(-1)
    singular = np.linalg.svd(parts, compute_uv=False)
    if len(singular) == units and singular[-1] > 1e-3 * singular[0]:
        share = np.linalg.lstsq(parts, wanted, rcond=None)[0] / scale
        return np.asarray(share > 0.5)
    if units > _MOST_TRIED:
        raise Unrecoverable(
            f"its {units} units are too many for {first.shape[1]} inputs and {len(last)} classes to tell which side of "
            "each is on"
        )
    cases = np.array(list(product((0.0, 1.0), repeat=units)))
    errors = np.linalg.norm((cases * scale) @ parts.T - wanted, axis=1)
    return np.asarray(cases[errors.argmin()] > 0.5)
