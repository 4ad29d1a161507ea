"""RMIA: how much more likely the model makes a record than reference models do (Zarifzadeh2024)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from modelkeep.core.data import Data
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.privacy.membership.attack import MembershipAttack, of_label, probabilities
from modelkeep.privacy.membership.knowledge import Knowledge
from modelkeep.privacy.shadows import Shadows

_TINY = 1e-30


@declare("membership", "rmia", access="scores", paper="Zarifzadeh2024")
class RMIA(MembershipAttack):
    """The ratio p(x | θ) / p(x), beside that of the hold-out records.

    The paper counts the hold-out records z with ratio(x) ≥ γ · ratio(z). That count grows with ratio(x) and with
    nothing else, so the continuous ratio ranks the candidates as it does, but without ties: with z records the count
    has z + 1 values, of which the highest is shared by too many to say anything at 0.1 % false positives.
    """

    cheap: ClassVar[dict[str, Any]] = {"shadows": 2}

    shadows: int = setting("Reference models, an even number.", default=16, at_least=2)
    online: bool = setting("Train reference models on the candidates themselves.", default=True)
    offset: float = setting(
        "Offline: a in p(x) = ((1 + a) p_out(x) + 1 - a) / 2, which stands for the models with x.",
        default=0.3,
        at_least=0,
        at_most=1,
    )

    def score(self, model: Model, candidates: Data, knowledge: Knowledge, *, seed: int = 0) -> torch.Tensor:
        """The log-ratio of each candidate, less the median one of the hold-out records."""
        pool = candidates if self.online else knowledge.hold_out
        trained = knowledge.shadows(self.name, model, pool, self.shadows, seed)
        inside = (trained.inside, None) if self.online else (None, trained.inside)
        ratios = self.log_ratio(model, candidates, trained, inside[0])
        return ratios - self.log_ratio(model, knowledge.hold_out, trained, inside[1]).median()

    def log_ratio(self, model: Model, data: Data, trained: Shadows, inside: torch.Tensor | None) -> torch.Tensor:
        """log(p(x | θ) / p(x)) for each record; `inside: (k, n)` says which models learned it, None that none did."""
        own = of_label(probabilities(model, data), data.y)
        answers = torch.stack([of_label(probabilities(each, data), data.y) for each in trained.models])
        if inside is not None:  # as many models with the record as without it
            marginal = (_mean(answers, inside) + _mean(answers, ~inside)) / 2
        else:
            marginal = ((1 + self.offset) * answers.mean(dim=0) + 1 - self.offset) / 2
        return own.clamp_min(_TINY).log() - marginal.clamp_min(_TINY).log()


def _mean(values: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """The mean of the chosen of the values `(k, n)`; of all where none is chosen."""
    count = chosen.sum(dim=0)
    return torch.where(count > 0, (values * chosen).sum(dim=0) / count.clamp_min(1), values.mean(dim=0))
