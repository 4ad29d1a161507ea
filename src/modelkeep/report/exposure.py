"""Exposure: one member, how surely it is found, and what gives it away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from modelkeep.core.black_box import gives_enough
from modelkeep.core.data import Data
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.privacy import BayesianWhiteBox, Knowledge, Membership
from modelkeep.privacy.membership.attack import of_label, probabilities
from modelkeep.privacy.membership.local_linear import places_with_weights
from modelkeep.privacy.membership.roc import share_level
from modelkeep.privacy.records import SHOWN, record_hashes
from modelkeep.privacy.shadows import join
from modelkeep.report.measure import percent

_REASONS = 3
_PROXIES = 4
_PLACES = 3
_LEAST = 1e-9
EXPOSED = 0.05
"""A record is exposed where at most this share of the non-members scores as high."""


@dataclass(frozen=True)
class Exposure:
    """One record: its row and hash, its class, its score, and how often accusing such a record would be wrong.

    `accused_wrongly` is the share of the non-members that score as high. `why` says what speaks for membership: the
    model's certainty, the place in the network, and the features whose use by the model is unlike that of others.
    """

    row: int
    hash: str
    label: str
    score: float
    accused_wrongly: Estimate
    why: tuple[str, ...] = ()

    def tell(self) -> str:
        """Whether this record is exposed, in a sentence."""
        share = self.accused_wrongly
        who = f"Record {self.row} ({self.hash}, '{self.label}')"
        if share.high <= EXPOSED:
            return (
                f"{who} is exposed: {percent(share.value)} of {share.n} non-members score as high (at most "
                f"{percent(share.high)} of all), so that such a score hardly ever belongs to a stranger."
            )
        if share.value <= EXPOSED:
            return (
                f"{who} may be exposed: {percent(share.value)} of only {share.n} non-members score as high, and it may "
                f"be up to {percent(share.high)}. Give more non-members to be sure."
            )
        return f"{who} hides among others: {percent(share.value)} of {share.n} non-members score as high."


def find_exposures(
    found: Membership, members: Data, rows: Sequence[int], reasons: Sequence[tuple[str, ...]], attacks: int
) -> tuple[Exposure, ...]:
    """The exposure of the members at `rows`. The limits of all of them hold together, whichever attack was chosen."""
    if not rows:
        return ()
    hashes = record_hashes(members.take(rows))
    shares = found.accusations(found.members[list(rows)])
    others, level = len(found.non_members), share_level(len(rows) * attacks)
    return tuple(
        Exposure(
            row=row,
            hash=hashes[i][:SHOWN],
            label=members.classes[int(members.y[row])],
            score=float(found.members[row]),
            accused_wrongly=Estimate.rate(round(float(shares[i]) * others), others, level),
            why=reasons[i],
        )
        for i, row in enumerate(rows)
    )


@dataclass(frozen=True, eq=False)
class Reasons:
    """What gives records away: sentences for each, and for pictures the evidence pixel by pixel, `(n, h, w)`."""

    told: list[tuple[str, ...]]
    evidence: torch.Tensor | None = None


def find_reasons(model: Model, records: Data, non_members: Data, knowledge: Knowledge, seed: int) -> Reasons:
    """Why records are exposed, as far as the model and the attacker's knowledge show it.

    Without a recipe no proxies can be trained, and only the certainty of the answers is told.
    """
    if not len(records):
        return Reasons([])
    told: list[list[str]] = [[] for _ in range(len(records))]
    evidence = None
    if gives_enough(model.access, "scores"):
        _add(told, _certainty(model, records, non_members))
    if knowledge.recipe is not None and model.access == "weights" and model.nest is None:
        _add(told, _places(model, records, non_members, knowledge, seed))
        found = BayesianWhiteBox(slices="input", proxies=_PROXIES).evidence(model, records, knowledge, seed=seed)
        if records.features is not None:
            _add(told, _features(records, records.features, found))
        elif len(records.input_shape) == 3:
            evidence = found.view(len(records), *records.input_shape).sum(dim=1)
    return Reasons([tuple(each) for each in told], evidence)


def _add(told: list[list[str]], more: Sequence[Sequence[str]]) -> None:
    for each, new in zip(told, more, strict=True):
        each += new


def _certainty(model: Model, records: Data, non_members: Data) -> list[list[str]]:
    """The probability of each record's class, beside those of the non-members of that class."""
    own = of_label(probabilities(model, records), records.y)
    others = of_label(probabilities(model, non_members), non_members.y)
    told: list[list[str]] = []
    for p, y in zip(own, records.y, strict=True):
        same = others[non_members.y == y]
        if not len(same):
            told.append([])
            continue
        lower = float((same < p).double().mean())
        told.append([f"its class has {_digits(float(p))}, more than for {percent(lower)} of non-members of that class"])
    return told


def _places(model: Model, records: Data, non_members: Data, knowledge: Knowledge, seed: int) -> list[list[str]]:
    """The place where the target is displaced most from its proxies, in standard deviations of the non-members."""
    every = places_with_weights(model)
    if len(every) > _PLACES:
        every = (every[0], every[len(every) // 2], every[-1])
    pile = join([records, non_members])
    found = BayesianWhiteBox(proxies=_PROXIES).at_places(model, every, pile, knowledge, seed=seed)
    own, others = found[: len(records)], found[len(records) :]
    deviations = (own - others.median(dim=0).values) / others.std(dim=0, correction=0).clamp_min(_LEAST)
    told = []
    for row in deviations:
        best = int(row.argmax())
        told.append([f"most at '{every[best]}' ({float(row[best]):+.1f} sd)"] if row[best] > 0 else [])
    return told


def _features(records: Data, names: Sequence[str], evidence: torch.Tensor) -> list[list[str]]:
    """The features whose use by the target, and not by proxies, speaks most for membership."""
    told = []
    for row, values in zip(evidence, records.rows(range(len(records))), strict=True):
        strongest = [int(j) for j in row.argsort(descending=True)[:_REASONS] if row[j] > 0]
        told.append([f"{names[j]} = {float(values[j]):.4g} ({float(row[j]):+.2f})" for j in strongest])
    return told


def _digits(p: float) -> str:
    """A probability near 1 with the digits that matter.

    >>> _digits(0.5), _digits(0.99998), _digits(1 - 1e-9)
    ('50 %', '99.998 %', '> 99.999 %')
    """
    if p > 0.99999:
        return "> 99.999 %"
    return f"{100 * p:.4g} %" if p < 0.9999 else f"{100 * p:.6g} %"
