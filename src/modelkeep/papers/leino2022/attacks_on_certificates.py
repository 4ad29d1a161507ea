"""Attacks on certified inputs, each at its own radius: not one may succeed on the network as it is computed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from modelkeep.attack.ensemble import Standard
from modelkeep.attack.minimum_norm.fmn import FMN
from modelkeep.certify.certification import Certify
from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.core.norms import Norm
from modelkeep.core.progress import task
from modelkeep.core.results import Estimate, Provenance, Result, measured

_ORDER: dict[Norm, float] = {"l2": 2.0, "linf": torch.inf, "l1": 1.0}
_BELOW = 1 - 1e-5  # attacks may overstep their radius by the rounding of float32


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackedCertificates(Result, kind="attacked-certificates"):
    """How many certified inputs there were, how many fell within their radii, and how near an attack came.

    `nearest` is the smallest successful change, in certified radii: below 1 it would refute the certificate. `farther`
    is the share of the same inputs that the ensemble wins at five times the largest radius of their group: it shows
    that the attack works.
    """

    norm: Norm
    certified: int
    broken: tuple[int, ...]
    nearest: float
    farther: Estimate
    provenance: Provenance

    def rows(self) -> list[tuple[str, str]]:
        """What was attacked, and what fell."""
        return [
            ("certified inputs attacked", f"{self.certified}, {self.norm}, each at its own radius"),
            ("answers changed within the radius", str(len(self.broken))),
            ("smallest successful change, in radii", f"{self.nearest:.4g}"),
            ("answers changed at five times the radius", str(self.farther)),
        ]


def attack_certified(
    model: Model, data: Data, norm: Norm = "l2", *, group: int = 100, steps: int = 100, queries: int = 1000, seed: int
) -> AttackedCertificates:
    """Attack every input of `data` that has a certified radius, with the standard ensemble and with FMN.

    The ensemble takes one radius at a time: inputs with nearly the same one form a `group`, and are attacked at its
    smallest. FMN looks for the smallest change of each. The attacks may leave the bounds of the data, as certificates
    hold there, too. What counts is the prediction in the network's own type and the distance in float64.
    """
    with measured(seed=seed, model=model.fingerprint(), data=data.fingerprint()) as provenance:
        certified = Certify(radius=1.0, norm=norm)(model, data)
        chosen = torch.nonzero(certified.radii > 0).flatten()
        order = chosen[certified.radii[chosen].argsort()]
        radii, answers = certified.radii[order], certified.logits[order].argmax(dim=1)
        free = Model.from_card(model.module, replace(model.card, bounds=None), model.device)
        inputs = Data(data.x[order], answers, data.classes, bounds=None, name=data.name)
        nearest = torch.full_like(radii, torch.inf)

        def look(found: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
            """Note how far the found inputs are that change an answer; whether they do."""
            changed = model.predict(found) != answers[where]
            distance = torch.linalg.vector_norm(
                (found.double() - inputs.x[where].double()).flatten(1), ord=_ORDER[norm], dim=1
            )
            share = torch.where(changed, distance / radii[where], torch.inf)
            nearest[where] = torch.minimum(nearest[where], share)
            return changed

        farther = 0

        def move(part: Data, radius: float) -> torch.Tensor:
            attack = Standard(norm=norm, radius=radius, steps=steps, queries=queries)
            return attack(free, part, seed=seed).adversarial

        with task("Attacking certificates", total=len(order)) as progress:
            for where in torch.split(torch.arange(len(order)), group):
                part, least = inputs.take(where), float(radii[where[0]])
                look(move(part, least * _BELOW), where)
                look(FMN(norm=norm, steps=steps)(free, part, seed=seed).adversarial, where)
                most = float(radii[where[-1]])
                farther += int(look(move(part, 5 * most), where).sum())
                progress.advance(len(where))
    return AttackedCertificates(
        norm=norm,
        certified=len(order),
        broken=tuple(order[nearest < 1].tolist()),
        nearest=float(nearest.min()),
        farther=Estimate.rate(farther, len(order)),
        provenance=provenance(),
    )
