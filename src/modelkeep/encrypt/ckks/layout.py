"""Layout: a network laid out in slots under some parameters, with its gains, its expected error and its operations."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np

from modelkeep.encrypt.ckks.affine import Affine, Network
from modelkeep.encrypt.ckks.evaluation import PackedProgram, Program, SingleProgram
from modelkeep.encrypt.ckks.noise import LARGEST, predict_packed, predict_single
from modelkeep.encrypt.ckks.packing import Diagonals, Gather, diagonals, gather, power_above
from modelkeep.encrypt.ckks.parameters import Parameters
from modelkeep.encrypt.ckks.ranges import Range, Ranges, apply_gains, power_below
from modelkeep.encrypt.ckks.scheme import Scheme

Packing = Literal["single", "packed"]
Operations = Counter[tuple[str, int]]
EXPONENTS = range(0, 15, 2)  # log2 of the largest value between layers, of which the best is taken


@dataclass(frozen=True)
class Layout:
    """The scaled maps and where their values stand; `first` and `later` are there for one sample only."""

    parameters: Parameters
    packing: Packing
    maps: tuple[Affine, ...]
    gain: float
    error: float
    first: Gather | None = None
    later: tuple[Diagonals, ...] = ()

    @property
    def steps(self) -> tuple[int, ...]:
        """The rotations that the client makes keys for."""
        found = set(self.first.steps) if self.first else set()
        return tuple(sorted(found.union(*(layer.steps for layer in self.later))))

    def program(self, scheme: Scheme) -> Program:
        """What a server runs."""
        if self.first is None:
            return PackedProgram(scheme, self.maps)
        return SingleProgram(scheme, self.maps, self.first, self.later)

    def operations(self) -> list[Operations]:
        """How often each operation happens at each level, map by map; a square counts to the map after it."""
        return [self._count(position) for position in range(len(self.maps))]

    def _count(self, position: int) -> Operations:
        affine, level = self.maps[position], 2 * position
        if self.first is None:
            weights = int(np.count_nonzero(affine.weight))
            rows, columns = affine.weight.shape
            counts: Operations = Counter({("multiply", level): weights, ("add", level): weights - rows})
            counts[("encode", level)] = weights
            counts[("rescale", level)] = rows
            squares = columns
        elif position == 0:
            products = len(self.first.index)
            counts = Counter({("multiply", 0): products, ("add", 0): products - 1, ("rescale", 0): 1})
            counts[("rotate", 1)] = counts[("add", 1)] = len(self.first.steps)
            squares = 1
        else:
            layer = self.later[position - 1]
            count = len(layer.values)
            counts = Counter({("multiply", level): count, ("add", level): count - 1, ("rescale", level): 1})
            counts[("rotate", level)] = min(layer.baby, count) - 1 + layer.groups - 1
            counts[("rotate", level + 1)] = counts[("add", level + 1)] = len(layer.sums)
            squares = 1
        if position:
            counts[("square", level - 1)] = squares
        return counts


def lay_out(network: Network, ranges: Ranges, parameters: Parameters, packing: Packing) -> Layout | None:
    """The layout with the gains that give the smallest error; None where the network does not fit."""
    widest = max(power_above(len(affine.bias)) for affine in network.maps)
    if packing == "single" and widest > parameters.slots:
        return None
    first = gather(network.maps[0].pattern, parameters.slots) if packing == "single" else None
    best: Layout | None = None
    for exponent in EXPONENTS if len(network.maps) > 1 else (0,):
        gains = _gains(ranges.maps, parameters, exponent)
        if gains is None:
            continue
        maps, scaled = apply_gains(network, ranges, gains)
        if first is None:
            error = predict_packed(parameters, maps, scaled.maps)
            later: tuple[Diagonals, ...] = ()
        else:
            later = _later(maps, first.period)
            error = predict_single(parameters, maps, scaled.maps, first, later)
        made = Layout(parameters, packing, maps, gains[-1], LARGEST * error / gains[-1], first, later)
        if best is None or made.error < best.error:
            best = made
    return best


def _later(maps: tuple[Affine, ...], period: int) -> tuple[Diagonals, ...]:
    found = []
    for affine in maps[1:]:
        found.append(diagonals(affine.weight, period))
        period = found[-1].period
    return tuple(found)


def _gains(ranges: tuple[Range, ...], parameters: Parameters, exponent: int) -> tuple[float, ...] | None:
    """Gains that bring the values between layers to 2^exponent and the answer to the room it has; None if too large."""
    gains = [power_below(2.0**exponent / seen.value) for seen in ranges[:-1]]
    gains.append(power_below(parameters.room / ranges[-1].partial))
    for position, (seen, gain) in enumerate(zip(ranges, gains, strict=True)):
        level = 2 * position + 1
        left = sum(parameters.primes[: len(parameters.primes) - 1 - level])
        held = parameters.scale_bits + math.log2(seen.partial * gain) + 1
        squared = 2 * (parameters.scale_bits + math.log2(seen.value * gain)) + 1
        if held > left or (position < len(ranges) - 1 and squared > left):
            return None
    return tuple(gains)
