"""shadow-bb: a network per class learns from shadow models what the answers to members look like (Shokri2017)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import nn

from modelkeep.core.data import Data
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.privacy.membership.attack import MembershipAttack, probabilities
from modelkeep.privacy.membership.classifier import member_logit, train_classifier
from modelkeep.privacy.membership.knowledge import Knowledge
from modelkeep.training.batches import derive_seed

HIDDEN = 64
"""As in Shokri2017."""


@declare("membership", "shadow-bb", access="scores", paper="Shokri2017; Leino2022, section 8.3.3")
class ShadowClassifier(MembershipAttack):
    """A network per class that tells the answers to members from those to others, learned from shadow models."""

    cheap: ClassVar[dict[str, Any]] = {"shadows": 2, "epochs": 1}

    shadows: int = setting("Shadow models, an even number.", default=10, at_least=2)
    epochs: int = setting("Epochs of the attack's own training.", default=32, at_least=1)

    def score(self, model: Model, candidates: Data, knowledge: Knowledge, *, seed: int = 0) -> torch.Tensor:
        """The logit of "member"."""
        held = knowledge.hold_out
        trained = knowledge.shadows(self.name, model, held, self.shadows, seed)
        answers = torch.cat([probabilities(each, held) for each in trained.models]).float()
        labels, inside = held.y.repeat(len(trained)), trained.inside.flatten().long()
        own = probabilities(model, candidates).float()
        scores = torch.zeros(len(candidates), dtype=torch.float64)
        for c in sorted(set(candidates.y.tolist())):
            chosen = labels == c if (labels == c).any() else torch.ones_like(inside, dtype=torch.bool)
            network = nn.Sequential(nn.Linear(answers.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2))
            fitted = train_classifier(
                network, answers[chosen], inside[chosen], self.epochs, derive_seed(seed, "shadow-bb", c)
            )
            scores[candidates.y == c] = member_logit(fitted, own[candidates.y == c])
        return scores
