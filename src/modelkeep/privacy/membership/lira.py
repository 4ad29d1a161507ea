"""LiRA: is the model more like those that learned the record, or like those that did not? (Carlini2022)"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch

from modelkeep.core.data import Data
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.privacy.membership.attack import MembershipAttack, log_odds, probabilities
from modelkeep.privacy.membership.knowledge import Knowledge

OWN_VARIANCE = 64
"""With fewer shadows, all records share one variance: that of a few numbers is too uncertain (Carlini2022)."""
_LEAST = 1e-6


@declare("membership", "lira", access="scores", paper="Carlini2022, algorithm 1")
class LiRA(MembershipAttack):
    """A likelihood ratio of the record's log odds, Gaussian over shadow models with and without the record.

    Online, the shadows learn halves of the candidates, so that each candidate is in half of them. Offline, they learn
    halves of the hold-out records, and only the distribution without the record is known.
    """

    cheap: ClassVar[dict[str, Any]] = {"shadows": 2}

    shadows: int = setting("Shadow models, an even number.", default=16, at_least=2)
    online: bool = setting("Train shadows on the candidates themselves.", default=True)

    def score(self, model: Model, candidates: Data, knowledge: Knowledge, *, seed: int = 0) -> torch.Tensor:
        """The log-likelihood ratio; offline, by how many standard deviations the log odds are above the mean."""
        own = log_odds(probabilities(model, candidates), candidates.y)
        pool = candidates if self.online else knowledge.hold_out
        trained = knowledge.shadows(self.name, model, pool, self.shadows, seed)
        odds = torch.stack([log_odds(probabilities(each, candidates), candidates.y) for each in trained.models])
        inside = trained.inside if self.online else torch.zeros_like(odds, dtype=torch.bool)
        mean, spread = gaussians(odds, ~inside)
        if not self.online:
            return (own - mean) / spread
        with_mean, with_spread = gaussians(odds, inside)
        return log_density(own, with_mean, with_spread) - log_density(own, mean, spread)


def gaussians(values: torch.Tensor, chosen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean and the standard deviation `(n,)` of the chosen of the values `(k, n)`.

    Where a record is in too few shadows, the deviation is that of all records from their own means.
    """
    count = chosen.sum(dim=0)
    kept = torch.where(chosen, values, 0.0)
    mean = kept.sum(dim=0) / count.clamp_min(1)
    squares = torch.where(chosen, (values - mean) ** 2, 0.0)
    if len(values) >= OWN_VARIANCE:
        variance = squares.sum(dim=0) / (count - 1).clamp_min(1)
    else:
        # A record that no shadow, or only one, says something about adds nothing to the common variance.
        variance = (squares.sum() / (count - 1).clamp_min(0).sum().clamp_min(1)).expand(values.shape[1])
    mean = torch.where(count > 0, mean, kept.sum() / chosen.sum().clamp_min(1))
    return mean, variance.sqrt().clamp_min(_LEAST)


def log_density(value: torch.Tensor, mean: torch.Tensor, spread: torch.Tensor) -> torch.Tensor:
    """The log-density of a Gaussian."""
    return -(((value - mean) / spread) ** 2) / 2 - spread.log() - math.log(2 * math.pi) / 2
