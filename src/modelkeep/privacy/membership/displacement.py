"""nn-wb: a learned displacement between the weights of the target and those of a proxy (Leino2022, algorithm 8.2)."""

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
from modelkeep.privacy.membership.local_linear import at_zero, cut_at, local_weights, places_of, train_proxies
from modelkeep.training import Recipe
from modelkeep.training.batches import derive_seed


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

    def score(self, model: Model, candidates: Data, knowledge: Knowledge, *, seed: int = 0) -> torch.Tensor:
        """The log odds of membership."""
        recipe, held = knowledge.need_recipe(self.name), knowledge.hold_out
        places = places_of(model, self.slices)
        trained = knowledge.shadows(self.name, model, held, self.shadows, seed)
        learned = []
        for i, shadow in enumerate(trained.models):
            others = torch.nonzero(~trained.inside[i]).flatten()
            with shadow.frozen(seed):
                learned.append(
                    self.inputs(shadow, places, held, others, held, recipe, derive_seed(seed, "split", i))[0]
                )
        rows = torch.arange(len(held))
        own, sizes = self.inputs(model, places, held, rows, candidates, recipe, derive_seed(seed, "target"))
        fitted = train_classifier(
            Displacement(sizes, self.hidden, self.meta),
            torch.cat(learned),
            trained.inside.flatten(),
            self.epochs,
            derive_seed(seed, "nn-wb"),
        )
        return member_logit(fitted, own)

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
        for i, place in enumerate(places):
            (proxy,) = train_proxies(model, place, learned, recipe, [derive_seed(seed, "proxy", i)], [rows])
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
