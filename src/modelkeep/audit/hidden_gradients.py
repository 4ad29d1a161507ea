"""Was the attack hindered? Gradients that are hidden stop an attack that uses them, and no attacker."""

from __future__ import annotations

from itertools import pairwise

import torch
from scipy.stats import binomtest

from modelkeep.attack import Attacked, Square
from modelkeep.audit.evidence import show_attacked
from modelkeep.audit.findings import Finding
from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.report.measure import Measure, percent

BLIND = 64  # examples that the attack without gradients gets
# How sure the blind attack must be better (sign test), and by which share: to be named, and to be grave.
_SURE, _MASKED, _GRAVE = 0.01, 0.1, 0.3


def search_blindly(seeing: Attacked, model: Model, data: Data, queries: int, seed: int) -> list[Finding]:
    """Square, which sees no gradient, on examples that the attack that sees them got too, pair by pair.

    A gradient only helps: where the blind attack clearly wins more of the same examples, gradients are hidden.
    """
    chosen = torch.nonzero((seeing.before == seeing.labels).cpu()).flatten()[:BLIND]
    if len(chosen) == 0 or seeing.radius is None:
        return []
    blind = Square(norm="linf", radius=seeing.radius, queries=queries)(model, data.take(chosen), seed=seed)
    by_blind, by_seeing = blind.after != blind.labels, (seeing.after != seeing.labels)[chosen]
    more, fewer = int((by_blind & ~by_seeing).sum()), int((by_seeing & ~by_blind).sum())
    if more <= fewer or binomtest(more, more + fewer, 0.5, alternative="greater").pvalue > _SURE:
        return []
    gain = Estimate.bootstrap((by_blind.double() - by_seeing.double()).numpy(), seed)
    if gain.value < _MASKED:
        return []
    return [
        Finding(
            id="robustness.masked-gradients",
            severity="high" if gain.low >= _GRAVE else "medium",
            title="Its gradients are hidden: an attack that needs none finds more than one that uses them",
            measured=f"On the same {len(chosen)} examples, at {seeing.size}, {seeing.attack} makes "
            f"{percent(float(by_seeing.double().mean()))} wrong and Square, which only sees scores, "
            f"{percent(float(by_blind.double().mean()))}: {more} only by Square, {fewer} only by {seeing.attack}.",
            meaning="Figures of gradient attacks on this model are too good. An attacker needs no gradients.",
            remedy="Attack it without gradients, or through a smooth stand-in for the part that hides them (bpda, "
            "eot); then train it on attacked inputs instead.",
            weight=gain.value,
            value=Measure("share that Square finds beyond the attack by gradients", gain),
            access="scores",
            queries=blind.queries,
            evidence=show_attacked(blind),
        )
    ]


def find_hindrances(attacks: list[Attacked]) -> list[Finding]:
    """What the attacks say of themselves, and a larger change that found less than a smaller one."""
    notes = sorted({note for attack in attacks for note in attack.health if "masked" in note or "random" in note})
    for smaller, larger in pairwise(attacks):
        if smaller.norm == larger.norm and larger.robust_accuracy.low > smaller.robust_accuracy.value:
            notes.append(f"a larger change ({larger.size}) fooled it less often than a smaller one")
    if not notes:
        return []
    return [
        Finding(
            id="robustness.attack-impaired",
            severity="medium",
            title="The attack may have been hindered, so the model may be weaker than it looks",
            measured=f"{notes[0][0].upper()}{notes[0][1:]}.",
            meaning="Gradients that are hidden stop this attack, not an attacker.",
            remedy="Attack it without gradients (modelkeep attack --method square), or through a smooth stand-in for "
            "the part that hides them (bpda, eot).",
        )
    ]
