"""bayesian-wb: the target uses features otherwise than proxies that learned other records (Leino2022, chapter 8)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import nn

from modelkeep.core.data import Data
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.privacy.membership.attack import MembershipAttack
from modelkeep.privacy.membership.classifier import member_logit, train_classifier
from modelkeep.privacy.membership.knowledge import Knowledge
from modelkeep.privacy.membership.local_linear import (
    cut_at,
    local_weights,
    logits_of,
    places_of,
    train_proxies,
    train_proxies_at,
)
from modelkeep.training import Recipe
from modelkeep.training.batches import derive_seed

META_HIDDEN = 16
"""The hidden units of the meta model (Leino2022, section 8.3.3)."""
PROXY_SHARE = 0.5
"""Of the attacker's records, what each proxy learns: as many as the target has, in the thesis' split."""


@declare("membership", "bayesian-wb", access="weights", paper="Leino2022, algorithms 8.1 and 8.3, section 8.3.2")
class BayesianWhiteBox(MembershipAttack):
    """The displacement of the target's use of features from that of proxies, which is best for Gaussian classes.

    At a slice f = g ∘ h the weight of a feature is its influence on the line from zero, and the score is
    Σ_j (χ_j(ĝ) - χ_j(g̃)) z_j + ĝ(0)_y - g̃(0)_y with the mean over the proxies g̃. By the efficiency of this influence
    (eq. 8.12) the sum is ĝ(z)_y - g̃(z)_y, and is computed as such: without the error of a numerical integral, and as
    fast as one pass. `evidence` gives its terms. At the last layer this is algorithm 8.1. At several slices, a meta
    model combines the scores (section 8.3.2). It learns from shadow models.
    """

    cheap: ClassVar[dict[str, Any]] = {"proxies": 2, "shadows": 2}

    slices: str | None = setting(
        "Where to compare: names from `model.slices()` with commas between; else what the last layer sees.",
        default=None,
    )
    proxies: int = setting("Proxies, whose mean is taken.", default=10, at_least=1)
    shadows: int = setting(
        "Shadow models for the meta model of several slices, an even number.", default=10, at_least=2
    )
    epochs: int = setting("Epochs of the meta model.", default=32, at_least=1)

    def score(self, model: Model, candidates: Data, knowledge: Knowledge, *, seed: int = 0) -> torch.Tensor:
        """The log odds of membership; of several slices, those of the meta model."""
        recipe, held = knowledge.need_recipe(self.name), knowledge.hold_out
        places = places_of(model, self.slices)
        # Proxies of a shadow learn as many records as those of the target: else the meta model learns from other gaps.
        size = proxy_size(len(held))
        found = self.displacements(model, places, held, candidates, recipe, derive_seed(seed, "target"), size)
        if len(places) == 1:
            return found[:, 0]
        trained = knowledge.shadows(self.name, model, held, self.shadows, seed)
        learned = []
        for i, shadow in enumerate(trained.models):
            others = held.take(torch.nonzero(~trained.inside[i]).flatten())
            with shadow.frozen(seed):
                own = derive_seed(seed, "meta", i)
                learned.append(self.displacements(shadow, places, others, held, recipe, own, size))
        meta = nn.Sequential(nn.Linear(len(places), META_HIDDEN), nn.ReLU(), nn.Linear(META_HIDDEN, 2))
        known = torch.cat(learned).sigmoid()
        fitted = train_classifier(meta, known, trained.inside.flatten(), self.epochs, derive_seed(seed, "meta"))
        return member_logit(fitted, found.sigmoid())

    def displacements(
        self, model: Model, places: tuple[str, ...], learned: Data, records: Data, recipe: Recipe, seed: int, size: int
    ) -> torch.Tensor:
        """For each record and place, the displacement of the target from proxies, `(n, places)`.

        Each proxy learns `size` of the records in `learned`.
        """
        found = []
        seeds, rows = draw_samples(len(learned), self.proxies, seed, size)
        trained = train_proxies_at(model, places, learned, recipe, [seeds] * len(places), rows)
        for place, proxies in zip(places, trained, strict=True):
            cutting = model.slice(place)
            cut = cut_at(cutting, model, records)
            mean = torch.stack([logits_of(proxy, cut, records.y) for proxy in proxies]).mean(dim=0)
            found.append(logits_of(cutting, cut, records.y) - mean)
        return torch.stack(found, dim=1)

    def at_places(
        self, model: Model, places: tuple[str, ...], records: Data, knowledge: Knowledge, *, seed: int = 0
    ) -> torch.Tensor:
        """The score of each record at each place by itself, `(n, places)`: where in the network it is exposed."""
        recipe, held = knowledge.need_recipe(self.name), knowledge.hold_out
        with model.frozen(seed):
            own = derive_seed(seed, "target")
            return self.displacements(model, places, held, records, recipe, own, proxy_size(len(held)))

    def evidence(
        self, model: Model, records: Data, knowledge: Knowledge, *, points: int = 20, seed: int = 0
    ) -> torch.Tensor:
        """What each feature at the (first) slice adds to the score of each record, `(n, d)`: why it is exposed.

        With the difference of the biases ĝ(0)_y - g̃(0)_y the terms sum to the score, but for the error of an integral
        by `points` points.
        """
        recipe, held = knowledge.need_recipe(self.name), knowledge.hold_out
        with model.frozen(seed):
            place = places_of(model, self.slices)[0]
            cutting = model.slice(place, skip="hold")
            cut = cut_at(cutting, model, records)
            samples = draw_samples(len(held), self.proxies, derive_seed(seed, "target"), proxy_size(len(held)))
            proxies = train_proxies(model, place, held, recipe, *samples)
            mean = torch.stack([local_weights(proxy, cut, records.y, points) for proxy in proxies]).mean(dim=0)
            return (local_weights(cutting, cut, records.y, points) - mean) * cut.value.flatten(1).cpu()


def proxy_size(held: int) -> int:
    """How many of the attacker's records a proxy learns."""
    return max(2, round(PROXY_SHARE * held))


def draw_samples(n: int, count: int, seed: int, size: int) -> tuple[list[int], list[torch.Tensor]]:
    """For each proxy a seed, and `size` of `n` records at random, or all of them where there are no more."""
    seeds = [derive_seed(seed, "proxy", i) for i in range(count)]
    return seeds, [torch.randperm(n, generator=torch.Generator().manual_seed(each))[:size] for each in seeds]
