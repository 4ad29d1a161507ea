"""A label-only attack: members keep their label under more noise than others (Choquette2021)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from modelkeep.core.access import Labels
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.privacy.membership.attack import MembershipAttack
from modelkeep.privacy.membership.knowledge import Knowledge
from modelkeep.privacy.membership.thresholds import medians
from modelkeep.training.batches import derive_seed


@declare("membership", "noise", access="labels", paper="Choquette2021")
class Noise(MembershipAttack):
    """How often the label is right on noisy copies of the record; only labels are seen.

    The noise is Gaussian, in units of each feature's standard deviation among the hold-out records, at strengths from
    0 to `strength`. The threshold of a class is the median of its hold-out records.
    """

    cheap: ClassVar[dict[str, Any]] = {"copies": 4}

    copies: int = setting("Noisy copies of each record.", default=100, at_least=1)
    strength: float = setting("The largest noise, in standard deviations.", default=1.0, above=0)

    def score(self, model: Model, candidates: Data, knowledge: Knowledge, *, seed: int = 0) -> torch.Tensor:
        """The share of the copies whose label is right, less the threshold."""
        if model.nest is not None and model.nest.tokens is not None:
            raise InputError(
                "The membership attack 'noise' adds noise to the numbers of a record, and a text is made of token ids. "
                "Choose another one, such as 'loss' or 'quantile'."
            )
        held = knowledge.hold_out
        scale = held.x.std(dim=0, correction=0) * self.strength
        known = self.share(model, held, scale, derive_seed(seed, "hold-out"))
        found = self.share(model, candidates, scale, derive_seed(seed, "candidates"))
        return found - medians(known, held.y, held.classes)[candidates.y]

    def share(self, model: Model, data: Data, scale: torch.Tensor, seed: int) -> torch.Tensor:
        """The share `(n,)` of the noisy copies of each record that the model gives its label."""
        view, generator = Labels(model), torch.Generator().manual_seed(seed)
        right = torch.zeros(len(data), dtype=torch.float64)
        for copy in range(self.copies):
            x = data.x + torch.randn(data.x.shape, generator=generator) * scale * (copy + 1) / self.copies
            if data.bounds is not None:
                x = x.clamp(*data.bounds)
            right += (view.labels(x).cpu() == data.y) / self.copies
        return right
