"""Proofs: the certified radius of every example that is looked at, and what is proved at a radius that is dragged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch

from modelkeep.certify import Certified, Certify
from modelkeep.core.black_box import require_access
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.norms import Norm
from modelkeep.core.results import Estimate
from modelkeep.web.exhibits import Lookout

MOST_PARAMETERS = 3_000_000
"""Of a network that is bounded while a person waits; a larger one takes minutes."""
_ANY = 1.0  # the radii do not depend on the radius at which the shares are counted


@dataclass(frozen=True)
class Proved:
    """What is proved at one radius: the shares, and the examples, by number, that are right and have no proof any more.

    `verified` counts the examples that are right and proved, `certified` those that are proved, right or wrong.
    """

    radius: float
    verified: Estimate
    certified: Estimate
    clean: Estimate
    lost: tuple[int, ...]


class Proofs:
    """The certificates of one model on its data, by norm. The caller holds the model's lock."""

    def __init__(self, model: Model, data: Data, lookout: Lookout | None = None) -> None:
        self.model, self.data = model, data
        self._lookout = lookout
        self.certified = lru_cache(maxsize=3)(self._certify)
        self.radius = lru_cache(maxsize=4096)(self._radius)

    @property
    def lookout(self) -> Lookout:
        """The examples that are certified."""
        if self._lookout is None:
            self._lookout = Lookout(self.model, self.data)
        return self._lookout

    def _certify(self, norm: Norm) -> Certified:
        """The radii of all examples that are looked at; refused where the network cannot be bounded in time."""
        self._require_bounds()
        return Certify(radius=_ANY, norm=norm)(self.model, self.lookout.data)

    def _radius(self, index: int, norm: Norm) -> float:
        """Below this distance no change alters the answer to example `index`."""
        if index in self.lookout.index:
            return float(self.certified(norm).radii[self.lookout.index.index(index)])
        self._require_bounds()
        return float(Certify(radius=_ANY, norm=norm)(self.model, self.data.take([index])).radii[0])

    def at(self, norm: Norm, radius: float) -> Proved:
        """What is proved at a radius; at 0 every answer is."""
        if not 0 <= radius < torch.inf:
            raise bad_parameter("at", "radius", "0 or more", radius)
        found = self.certified(norm)
        right = found.logits.argmax(dim=1) == found.labels
        proved = found.radii > radius if radius > 0 else torch.ones_like(right)
        n = len(right)
        lost = torch.nonzero(right & ~proved).flatten()
        lost = lost[found.radii[lost].argsort(stable=True)]
        return Proved(
            radius=radius,
            verified=Estimate.rate(int((right & proved).sum()), n),
            certified=Estimate.rate(int(proved.sum()), n),
            clean=Estimate.rate(int(right.sum()), n),
            lost=tuple(self.lookout.index[i] for i in lost.tolist()),
        )

    def _require_bounds(self) -> None:
        require_access(
            self.model.access,
            "weights",
            "A proof",
            " `modelkeep certify MODEL --data DATA --method smoothing --sigma 0.25` certifies scores under noise.",
        )
        count = sum(parameter.numel() for parameter in self.model.module.parameters())
        if count > MOST_PARAMETERS:
            raise InputError(
                f"To bound a network of {count:,} parameters takes minutes. `modelkeep certify MODEL --data DATA "
                "--radius R` does it once, and writes the radii."
            )
