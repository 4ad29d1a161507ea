"""Guarantee: what a private training promises about the weights of a model, as its file says it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from modelkeep.core.errors import InputError


@dataclass(frozen=True)
class Guarantee:
    """(ε, δ)-differential privacy of the weights against the addition or removal of one training example.

    `method` made it. Nothing else is kept: a hash of the private data or their number would not be private.
    """

    epsilon: float
    delta: float
    method: str

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf or not 0 <= self.delta < 1:
            raise InputError(
                f"A guarantee needs an ε above 0 and a δ from 0 to below 1. Got {self.epsilon} and {self.delta}."
            )

    def __str__(self) -> str:
        return f"ε = {self.epsilon:.3g} at δ = {self.delta:.2g}, by {self.method}"
