"""Quantile regression: one model that knows how high a record's log odds are if it is no member (Bertran2023)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch.nn.functional import softplus

from modelkeep.attack.transfer.proxy import new_network
from modelkeep.core.card import class_names
from modelkeep.core.data import Data
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.privacy.membership.attack import MembershipAttack, log_odds, of_label, probabilities
from modelkeep.privacy.membership.knowledge import Knowledge
from modelkeep.training import Recipe, Step, fit
from modelkeep.training.batches import derive_seed

_LEAST = 1e-3
_CPU = torch.device("cpu")
APART = 0.2
"""The share of the hold-out records that the regression does not learn."""


@dataclass(frozen=True)
class _Interface:
    """What the regression takes and gives: for each class a mean and a deviation."""

    input_shape: tuple[int, ...]
    classes: tuple[str, ...]
    bounds: tuple[float, float] | None
    dtype: torch.dtype
    device: torch.device


@dataclass(frozen=True)
class _Likelihood:
    """The negative log-likelihood of the log odds under the Gaussian that the network names for each class."""

    odds: torch.Tensor = field(repr=False, compare=False)
    name: str = "log odds"

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        mean, spread = _gaussian(model.forward(x), y)
        wanted = self.odds[step.index].to(mean)
        return (((wanted - mean) / spread) ** 2 / 2 + spread.log()).mean()


@declare("membership", "quantile", access="scores", paper="Bertran2023")
class Quantile(MembershipAttack):
    """By how many standard deviations the log odds are above what a regression expects of a non-member.

    The regression learns mean and deviation of the hold-out records' log odds from the record itself, which gives all
    quantiles at once. A fifth of these records is left out of it, and says how far the others are from it: a regression
    that learned its records by heart would call all others unusual. It needs no network like the target: an image goes
    through a small CNN, a text through an LSTM, anything else through two dense layers.
    """

    cheap: ClassVar[dict[str, Any]] = {"epochs": 12}

    epochs: int = setting("Epochs of the regression.", default=30, at_least=1)

    def score(self, model: Model, candidates: Data, knowledge: Knowledge, *, seed: int = 0) -> torch.Tensor:
        """The number of standard deviations."""
        held, apart = knowledge.hold_out.split(1 - APART, APART, seed=derive_seed(seed, "apart"))
        odds, unlearned, own = (log_odds(probabilities(model, d), d.y) for d in (held, apart, candidates))
        centre, scale = odds.mean(), odds.std(correction=0).clamp_min(_LEAST)
        interface = _Interface(
            model.input_shape, class_names(2 * len(model.classes)), model.bounds, torch.float32, _CPU
        )
        regression = new_network(interface, held.x, None, derive_seed(seed, "quantile"), nest=held.nest)
        learned = Data(held.x, held.y, regression.classes, bounds=held.bounds)
        recipe = Recipe(epochs=self.epochs, batch_size=64, learning_rate=2e-3)
        fit(regression, learned, _Likelihood(((odds - centre) / scale).float()), recipe, seed=seed)

        def deviations(data: Data, found: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                answers = torch.cat([regression.forward(x) for x, _ in data.batches(512)])
            mean, spread = (part.double() for part in _gaussian(answers, data.y))
            return ((found - centre) / scale - mean) / spread

        usual = deviations(apart, unlearned)
        return (deviations(candidates, own) - usual.median()) / usual.std(correction=0).clamp_min(_LEAST)


def _gaussian(answers: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean and the standard deviation that the network names for the record's own class."""
    means, spreads = answers.chunk(2, dim=1)
    return of_label(means, y), softplus(of_label(spreads, y)) + _LEAST
