"""Ranges: how large the values between the layers get, and the gains that make the most of the room for them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from modelkeep.core.data import Data
from modelkeep.core.errors import EncryptError
from modelkeep.core.model import Model
from modelkeep.encrypt.ckks.affine import Affine, Network
from modelkeep.encrypt.ckks.scheme import Floats

MARGIN = 2.0  # values of new inputs may be this much larger than those of the data that the plan was made from
SLACK = 0.25  # of the width of the data's range, on either side
SAMPLE = 1000  # examples that are looked at; the largest value of more differs by far less than the margin


@dataclass(frozen=True)
class Range:
    """Of one affine map: the norm of its input, the largest value, and the largest sum of a part of its summands."""

    norm: float
    value: float
    partial: float


@dataclass(frozen=True)
class Ranges:
    """The range of the inputs, and of each map."""

    low: float
    high: float
    maps: tuple[Range, ...]


def find_ranges(model: Model, network: Network, data: Data | None) -> Ranges:
    """The ranges on the data, with a margin; without data, the worst case over the bounds of the input."""
    if data is not None:
        model.require_fit(data)
        x = data.rows(range(min(SAMPLE, len(data)))).double().numpy()
        low, high = model.bounds or _widen(float(x.min()), float(x.max()))
        return Ranges(low, high, measure_ranges(network, x.reshape(len(x), -1)))
    if model.bounds is None:
        raise EncryptError(
            "The plan needs to know how large the inputs are: the model has no bounds. Give some data (--data), or "
            "bounds when the model is made."
        )
    low, high = model.bounds
    return Ranges(low, high, _at_worst(network, max(abs(low), abs(high))))


def _widen(low: float, high: float) -> tuple[float, float]:
    """New inputs are a little outside of the range of those that were seen; the margin of the values covers that."""
    return low - SLACK * (high - low), high + SLACK * (high - low)


def measure_ranges(network: Network, x: Floats) -> tuple[Range, ...]:
    """The range of each map on the inputs `x: (n, inputs)`, with the margin."""
    found = []
    for affine, values in zip(network.maps, network.values(x), strict=True):
        partial = np.abs(x) @ np.abs(affine.weight).T + np.abs(affine.bias)
        norm = float(np.linalg.norm(x, axis=1).max())
        found.append(Range(MARGIN * norm, MARGIN * float(np.abs(values).max()), MARGIN * float(partial.max())))
        x = np.square(values)
    return tuple(found)


def _at_worst(network: Network, largest: float) -> tuple[Range, ...]:
    found = []
    x = np.full(network.maps[0].weight.shape[1], largest)
    for affine in network.maps:
        values = np.abs(affine.weight) @ x + np.abs(affine.bias)
        found.append(Range(float(np.linalg.norm(x)), float(values.max()), float(values.max())))
        x = np.square(values)
    return tuple(found)


def apply_gains(network: Network, ranges: Ranges, gains: tuple[float, ...]) -> tuple[tuple[Affine, ...], Ranges]:
    """The same network with the values of map k multiplied by `gains[k]`.

    The noise of a ciphertext has one size whatever its values are, so larger values lose less. What a gain does is
    undone in the weights of the next map: by its square, because the values are squared between.
    """
    maps, scaled, before = [], [], 1.0
    for affine, seen, gain in zip(network.maps, ranges.maps, gains, strict=True):
        maps.append(replace(affine, weight=affine.weight * (gain / before), bias=affine.bias * gain))
        scaled.append(Range(seen.norm * before, seen.value * gain, seen.partial * gain))
        before = gain**2
    return tuple(maps), replace(ranges, maps=tuple(scaled))


def power_below(x: float) -> float:
    """The largest power of two that is at most x: multiplying by it rounds nothing.

    >>> power_below(5.0), power_below(0.3)
    (4.0, 0.25)
    """
    return float(2.0 ** np.floor(np.log2(x)))
