"""Policy: everything that decides which answer a query gets. Two replicas with the same epoch answer alike."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import ClassVar

from modelkeep.core.description import describe
from modelkeep.core.errors import bad_parameter
from modelkeep.guard.defence import Defence
from modelkeep.guard.grid import BITS, ONE


@dataclass(frozen=True)
class Policy:
    """A defence in front of one model.

    `model` is the fingerprint of its weights (of an upstream: whatever names the version that it serves); `noise` is
    an ℓ1 bound on how far two computations of one query's prediction may lie apart: another batch size, another
    machine. Answers that such noise could change are kept durably; all others need no memory.
    """

    defence: Defence
    model: str
    classes: int
    dtype: str = "float32"
    noise: float = 1e-5
    stored_name: ClassVar[str] = "modelkeep.guard.policy.Policy"

    def __post_init__(self) -> None:
        if not 0 <= self.noise < 0.1:
            raise bad_parameter("Policy", "noise", "from 0 (bit-identical predictions) to below 0.1", self.noise)
        if self.classes < 2:
            raise bad_parameter("Policy", "classes", "at least 2", self.classes)

    @cached_property
    def epoch(self) -> str:
        """The hash of weights, defence, budget, dtype, noise and grid: the name under which state is kept."""
        parts = [describe(self), f"grid 2^-{BITS}"]
        return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def slack(self) -> int:
        """How far two computations of one query's distance may differ, in units: by noise, and by going to the grid."""
        # Predictions that do not quite sum to one are normalised, which may double the noise, and `spent` moves by it
        # once more. Each coordinate of each of the two moves by at most a unit to the grid, and `spent` by as much.
        return math.ceil(3.1 * self.noise * ONE) + 4 * self.classes if self.noise else 0
