"""Affine maps with squares between them: a network in the clear, as numbers; no torch, because a worker imports it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from modelkeep.encrypt.ckks.scheme import Floats


@dataclass(frozen=True, eq=False)
class Affine:
    """`weight @ x + bias` on flat vectors; `pattern` is where the layers' structure lets a weight differ from zero.

    The pattern comes from the structure alone, not from the trained weights: a plan that shows it shows no weights.
    """

    name: str
    weight: Floats
    bias: Floats
    pattern: np.ndarray[Any, np.dtype[np.bool_]]

    def __call__(self, x: Floats) -> Floats:
        """The map of each row of `x: (n, inputs)`."""
        return x @ self.weight.T + self.bias


@dataclass(frozen=True)
class Network:
    """Affine maps; after each but the last, every value is squared."""

    maps: tuple[Affine, ...]

    def values(self, x: Floats) -> list[Floats]:
        """What each affine map gives for `x: (n, inputs)`, in float64 and in the clear; the last are the logits."""
        found = []
        for position, affine in enumerate(self.maps):
            x = affine(np.square(x) if position else x)
            found.append(x)
        return found
