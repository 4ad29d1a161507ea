"""nn-wb: a learned displacement between the weights of the target and those of a proxy (Leino2022, algorithm 8.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import nn

from modelkeep.core.data import Data
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.privacy.membership.attack import MembershipAttack
from modelkeep.privacy.membership.classifier import member_logit, train_classifier
from modelkeep.privacy.membership.knowledge import Knowledge
from modelkeep.privacy.membership.local_linear import at_zero, cut_at, local_weights, places_of, train_proxies_at
from modelkeep.privacy.shadows import Shadows
from modelkeep.training import Recipe
from modelkeep.training.batches import derive_seed

WIDTHS, META_WIDTHS = (0, 8), (0, 16)
"""The n_D and n_M of the sweep. The thesis does not name its own; 16 and a weighted sum are those of table 8.6."""


class Displacement(nn.Module):
    """D(ŵ, w̃)ᵀ z + D(b̂, b̃) at each place, and a meta model M of their sigmoids where there are several.

    An input is `(n, 3, d)`: the target's weights with its bias, the proxy's, and the features with a 1, of all places
    one after the other. D is a convolution of kernel and stride 2, one number of each network, and then of 1. Without
    hidden units it is a weighted sum of the two.
    """

    def __init__(self, sizes: tuple[int, ...], hidden: int, meta: int) -> None:
        super().__init__()
        self.sizes = sizes
        self.displacements = nn.ModuleList(_displacement(hidden) for _ in sizes)
        self.meta: nn.Module | None = None
        if len(sizes) > 1:
            layers = (
                [nn.Linear(len(sizes), meta), nn.ReLU(), nn.Linear(meta, 1)] if meta else [nn.Linear(len(sizes), 1)]
            )
            self.meta = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        confidences = []
        for displace, part in zip(self.displacements, torch.split(x, list(self.sizes), dim=2), strict=True):
            pairs = part[:, :2].transpose(1, 2).flatten(1)[:, None]  # (n, 1, 2d): ŵ₁ w̃₁ ŵ₂ w̃₂ …
            confidences.append((displace(pairs)[:, 0] * part[:, 2]).sum(dim=1))
        found = torch.stack(confidences, dim=1)
        logit = found if self.meta is None else self.meta(found.sigmoid())
        return torch.cat([-logit / 2, logit / 2], dim=1)


def _displacement(hidden: int) -> nn.Module:
    if not hidden:
        return nn.Conv1d(1, 1, 2, stride=2, bias=False)
    return nn.Sequential(nn.Conv1d(1, hidden, 2, stride=2), nn.ReLU(), nn.Conv1d(hidden, 1, 1))


@declare("membership", "nn-wb", access="weights", paper="Leino2022, algorithm 8.2 and section 8.3.2")
class LearnedWhiteBox(MembershipAttack):
    """A learned displacement between the features' weights in the target and those in a proxy.

    The network learns from shadow models, whose members are known. Line 6 of the thesis' algorithm 8.2 draws both
    labels from S⁰; here, as in its text, label 1 goes with S¹, which the shadow learned, and 0 with S⁰.
    """

    cheap: ClassVar[dict[str, Any]] = {"shadows": 2, "epochs": 1, "points": 2}

    slices: str | None = setting(
        "Where to compare: names from `model.slices()` with commas between; else what the last layer sees.",
        default=None,
    )
    shadows: int = setting("Shadow models to learn from, an even number.", default=10, at_least=2)
    hidden: int = setting("Hidden units of the displacement (n_D); 0: a weighted sum.", default=0, at_least=0)
    meta: int = setting("Hidden units of the meta model of several slices (n_M).", default=16, at_least=0)
    epochs: int = setting("Epochs of the attack's own training.", default=32, at_least=1)
    points: int = setting("Points on the line from zero for influences; a linear part needs 1.", default=10, at_least=1)
    records: int | None = setting(
        "Records that are learned of each shadow, half of them its members; by default all.", default=None, at_least=2
    )
    validation: int = setting(
        "Shadow models apart from these, an even number, on which n_D and n_M are chosen; 0: as given.",
        default=0,
        at_least=0,
    )

    def score(self, model: Model, candidates: Data, knowledge: Knowledge, *, seed: int = 0) -> torch.Tensor:
        """The log odds of membership."""
        recipe, held = knowledge.need_recipe(self.name), knowledge.hold_out
        places = places_of(model, self.slices)
        trained = knowledge.shadows(self.name, model, held, self.shadows + self.validation, seed)
        told = [self.told_by(trained, i, places, recipe, derive_seed(seed, "split", i)) for i in range(len(trained))]
        rows = torch.arange(len(held))
        own, sizes = self.inputs(model, places, held, rows, candidates, recipe, derive_seed(seed, "target"))
        x, inside = _join(told[: self.shadows])
        fitted = [
            train_classifier(Displacement(sizes, hidden, meta), x, inside, self.epochs, derive_seed(seed, "nn-wb"))
            for hidden, meta in self.widths(len(places))
        ]
        chosen = most_accurate(fitted, *_join(told[self.shadows :])) if self.validation else fitted[0]
        return member_logit(chosen, own)

    def widths(self, places: int) -> list[tuple[int, int]]:
        """The pairs (n_D, n_M) that are tried; a single place has no meta model, and n_M changes nothing."""
        if not self.validation:
            return [(self.hidden, self.meta)]
        return [(hidden, meta) for hidden in WIDTHS for meta in (META_WIDTHS if places > 1 else (0,))]

    def told_by(
        self, trained: Shadows, number: int, places: tuple[str, ...], recipe: Recipe, seed: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What one shadow tells of records, with a proxy that learned those that the shadow did not; who was in."""
        shadow, inside, held = trained.models[number], trained.inside[number], trained.pool
        chosen = torch.arange(len(held)) if self.records is None else _both_kinds(inside, self.records, seed)
        others = torch.nonzero(~inside).flatten()
        with shadow.frozen(seed):
            x, _ = self.inputs(shadow, places, held, others, held.take(chosen), recipe, seed)
        return x, inside[chosen]

    def inputs(
        self,
        model: Model,
        places: tuple[str, ...],
        learned: Data,
        rows: torch.Tensor,
        records: Data,
        recipe: Recipe,
        seed: int,
    ) -> tuple[torch.Tensor, tuple[int, ...]]:
        """What `Displacement` sees of the records, with a proxy that learned the `rows`; the sizes of the places."""
        parts = []
        seeds = [[derive_seed(seed, "proxy", i)] for i in range(len(places))]
        proxies = train_proxies_at(model, places, learned, recipe, seeds, [rows])
        for place, (proxy,) in zip(places, proxies, strict=True):
            cutting = model.slice(place, skip="hold")
            cut = cut_at(cutting, model, records)
            both = [
                torch.cat(
                    [
                        local_weights(each, cut, records.y, self.points).float(),
                        at_zero(each, cut, records.y)[:, None].float(),
                    ],
                    1,
                )
                for each in (cutting, proxy)
            ]
            z = cut.value.flatten(1).cpu().float()
            parts.append(torch.stack([*both, torch.cat([z, torch.ones(len(z), 1)], dim=1)], dim=1))
        return torch.cat(parts, dim=2), tuple(part.shape[2] for part in parts)


def most_accurate(fitted: Sequence[Model], x: torch.Tensor, inside: torch.Tensor) -> Model:
    """The network that tells best who was in; of equal ones the first, which is the smallest."""
    return max(fitted, key=lambda each: int(((member_logit(each, x) > 0) == inside).sum()))


def _join(told: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
    """What all these shadows tell, and who was in."""
    return torch.cat([x for x, _ in told]), torch.cat([inside for _, inside in told])


def _both_kinds(inside: torch.Tensor, count: int, seed: int) -> torch.Tensor:
    """`count` places at random, half of them where `inside`; fewer where there are fewer."""
    order = torch.randperm(len(inside), generator=torch.Generator().manual_seed(derive_seed(seed, "records")))
    halves = [order[inside[order] == kind][: count // 2] for kind in (True, False)]
    return torch.cat(halves).sort().values
