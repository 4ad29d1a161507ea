"""The frame of all membership attacks: what they are given, and what becomes of their scores."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from modelkeep.core.access import Labels, Scores
from modelkeep.core.data import Data
from modelkeep.core.errors import ModelError
from modelkeep.core.model import Model
from modelkeep.core.registry import declaration_of
from modelkeep.core.results import measured
from modelkeep.privacy.membership.knowledge import Knowledge
from modelkeep.privacy.membership.result import Membership
from modelkeep.privacy.shadows import join
from modelkeep.training.batches import derive_seed

_TINY = 1e-30
"""Probabilities below are as good as 0; their logarithm stays finite."""


class MembershipAttack:
    """A membership attack has `score`, and is called with members and non-members to see what it is worth.

    `cheap` are settings with which the tests run it in a moment.
    """

    cheap: ClassVar[dict[str, Any]] = {}

    def score(self, model: Model, candidates: Data, knowledge: Knowledge, *, seed: int = 0) -> torch.Tensor:
        """A score `(n,)` per candidate: the higher, the more likely a member; above 0 the attack says "member"."""
        raise NotImplementedError

    def __call__(
        self, model: Model, data: Data, non_members: Data, knowledge: Knowledge, *, seed: int = 0
    ) -> Membership:
        """Attack a model whose members are `data`. The attack gets all records in one pile, in random order."""
        for records in (data, non_members, knowledge.hold_out):
            model.require_fit(records)
        name = self.name
        with measured(seed, model.fingerprint(), data.fingerprint()) as provenance, model.frozen(seed):
            candidates = join([data, non_members])
            generator = torch.Generator().manual_seed(derive_seed(seed, "pile"))
            order = torch.randperm(len(candidates), generator=generator)
            found = self.score(model, candidates.take(order), knowledge, seed=seed).double().cpu()
            scores = torch.empty_like(found).scatter_(0, order, found)
            return Membership.of(name, scores[: len(data)], scores[len(data) :], provenance())

    @property
    def name(self) -> str:
        """Its name in the registry, or that of its class."""
        declared = declaration_of(self)
        return declared.name if declared is not None else type(self).__name__


def predictions(model: Model, data: Data) -> torch.Tensor:
    """The labels `(n,)` that the model gives."""
    view = Labels(model)
    return torch.cat([view.labels(x).cpu() for x, _ in data.batches(512)])


def probabilities(model: Model, data: Data) -> torch.Tensor:
    """The probabilities `(n, classes)` that the model gives, in float64."""
    view = Scores(model)
    found = torch.cat([view.probs(x).cpu().double() for x, _ in data.batches(512)])
    if not torch.isfinite(found).all():
        raise ModelError("The model gives NaN for some records. Are its weights damaged?")
    return found


def of_label(values: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The entry `(n,)` of each record's own class."""
    return values.gather(1, y[:, None])[:, 0]


def log_odds(probs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """log(p / (1 - p)) of the record's own class, which is nearly Gaussian over models (Carlini2022).

    1 - p is the sum of the others, which keeps its digits where p is nearly 1.
    """
    own = of_label(probs, y)
    others = probs.scatter(1, y[:, None], 0.0).sum(dim=1)
    return own.clamp_min(_TINY).log() - others.clamp_min(_TINY).log()
