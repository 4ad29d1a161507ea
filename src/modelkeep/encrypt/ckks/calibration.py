"""Calibration: how long each operation takes on this machine and how many bytes things have, measured in a moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from statistics import median
from time import thread_time
from typing import Any

from modelkeep.encrypt.ckks.arithmetic import Arithmetic
from modelkeep.encrypt.ckks.keys import ClientKeys
from modelkeep.encrypt.ckks.parameters import Parameters
from modelkeep.encrypt.ckks.scheme import Scheme, seal, to_bytes

REPEATS = 3


@dataclass(frozen=True)
class Calibration:
    """Seconds of one core for an operation, by its name and level, and bytes of what is sent."""

    seconds: Mapping[tuple[str, int], float]
    ciphertext_bytes: int
    answer_bytes: int
    relin_bytes: int
    galois_bytes: int  # of one rotation

    def total(self, counts: Mapping[tuple[str, int], int]) -> float:
        """The seconds of so many operations."""
        return sum(self.seconds[operation] * count for operation, count in counts.items())


@cache
def calibrate(parameters: Parameters) -> Calibration:
    """Measure under these parameters, with keys that are thrown away; takes from 0.2 s to some seconds."""
    scheme = Scheme(parameters)
    keys = ClientKeys(scheme)
    relin, galois = keys.evaluation_bytes([1])
    arithmetic = Arithmetic(scheme, keys.evaluation([1]))
    fresh = keys.encrypt([0.5] * scheme.slots)
    seconds = {}
    for level in range(parameters.depth + 1):
        at = arithmetic.lower(fresh, level)
        for name, run in _operations(arithmetic, at, level).items():
            seconds[name, level] = _time(run)
    answer = to_bytes(arithmetic.lower(fresh, parameters.depth))
    return Calibration(seconds, len(keys.encrypt_bytes([0.5] * scheme.slots)), len(answer), len(relin), len(galois))


def _operations(arithmetic: Arithmetic, at: Any, level: int) -> dict[str, Callable[[], Any]]:
    scheme = arithmetic.scheme
    found: dict[str, Callable[[], Any]] = {
        "rotate": lambda: arithmetic.rotate(at, 1),
        "add": lambda: arithmetic.add(at, at),
        "encode": lambda: scheme.encode(0.5, level=level),
    }
    if level < scheme.parameters.depth:
        factor = arithmetic.encode_factor([0.5] * scheme.slots, at)
        product = seal.Ciphertext()
        found |= {
            "multiply": lambda: scheme.evaluator.multiply_plain(at, factor, product),
            "rescale": lambda: scheme.evaluator.rescale_to_next(at, product),
            "square": lambda: arithmetic.square(at),
        }
    return found


def _time(run: Callable[[], Any]) -> float:
    run()
    taken = []
    for _ in range(REPEATS):
        start = thread_time()
        run()
        taken.append(thread_time() - start)
    return median(taken)
