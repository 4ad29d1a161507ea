"""The page of privacy: who can be found in the training data, how surely, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from modelkeep.core import plots
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.guarantee import Guarantee
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, measured
from modelkeep.privacy import BayesianWhiteBox, Knowledge, Membership, MembershipAttack
from modelkeep.privacy.inversion import Inverted
from modelkeep.privacy.membership.result import draw_roc
from modelkeep.privacy.records import SHOWN, record_hashes
from modelkeep.report.guarantee import guarantee_notes, guarantee_part, guarantee_rows
from modelkeep.report.measure import percent
from modelkeep.report.page import Card, Note, Page, Part, Table
from modelkeep.report.picture import Picture
from modelkeep.report.reconstructions import NAME as RECONSTRUCTIONS
from modelkeep.report.reconstructions import draw_reconstructions, reconstruct, tell_reconstructions
from modelkeep.report.words import table_of_texts

TAXONOMY = ("NIST AI 100-2 NISTAML.033", "MITRE ATLAS AML.T0024.000", "OWASP ML04:2023")
COUNT = 8
"""The most exposed records that a page shows."""
_REASONS = 3


@dataclass(frozen=True)
class Exposure:
    """One record: its row and hash, its class, its score, and how often accusing such a record would be wrong.

    `accused_wrongly` is the share of the non-members that score as high. `why` are the features whose use by the model
    speaks most for membership.
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
        if share.high <= 0.05:
            return (
                f"{who} is exposed: only {percent(share.value)} of {share.n} non-members score as high (at most "
                f"{percent(share.high)}), so that who sees this score may be sure that it was learned."
            )
        if share.value <= 0.05:
            return (
                f"{who} may be exposed: {percent(share.value)} of only {share.n} non-members score as high, and it may "
                f"be up to {percent(share.high)}. Give more non-members to be sure."
            )
        return f"{who} hides among others: {percent(share.value)} of {share.n} non-members score as high."


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivacyReport(Result, kind="privacy"):
    """What each attack found, and the members that the strongest of them (by its area) is surest of.

    `guarantee` is what the model's file says about its training: no attack should reach more than it allows.
    """

    model_name: str
    data_name: str
    attacks: tuple[Membership, ...]
    exposed: tuple[Exposure, ...]
    asked: tuple[Exposure, ...] = ()
    inverted: Inverted | None = None
    guarantee: Guarantee | None = None

    @property
    def strongest(self) -> Membership:
        """The attack with the largest area under its curve."""
        return max(self.attacks, key=lambda found: found.auc.value)

    @property
    def verdict(self) -> str:
        """What was found, in one or two sentences."""
        found = self.strongest
        if not found.leaks:
            return (
                f"No attack tells members from non-members beyond doubt. The strongest of {len(self.attacks)}, "
                f"{found.attack}, has an AUC of {found.auc.value:.3f} ({_interval(found.auc)}); chance is 0.5. "
                "A better attack may find more."
            )
        first = (
            f"It gives members away: by {found.attack}, the strongest of {len(self.attacks)}, a member scores above a "
            "non-member in "
            f"{percent(found.auc.value)} of all pairs ({percent(found.auc.low)} to {percent(found.auc.high)})."
        )
        claimed = [point for point in found.points if point.claimed]
        if not claimed:
            return first
        point = claimed[0]
        return (
            f"{first} Where {percent(point.false_positive_rate)} of the non-members are accused wrongly, "
            f"{percent(point.found.value)} of the members are found."
        )

    def rows(self) -> list[tuple[str, str]]:
        rows = [(found.attack, f"AUC {found.auc}, advantage {found.advantage}") for found in self.attacks]
        rows += guarantee_rows(self.guarantee, self.attacks)
        rows += self.strongest.rows()[1:]
        rows += [("most exposed", f"record {e.row} ({e.hash}), '{e.label}'") for e in self.exposed[:3]]
        return rows


def measure_privacy(
    model: Model,
    members: Data,
    non_members: Data,
    knowledge: Knowledge,
    attacks: Sequence[MembershipAttack],
    *,
    records: Sequence[int] = (),
    name: str = "",
    seed: int = 0,
) -> PrivacyReport:
    """Run the attacks; name the most exposed members, and say of the asked `records`, by row, whether they are."""
    if not attacks:
        raise InputError("There is no attack to run. Give at least one.")
    with measured(seed, model.fingerprint(), members.fingerprint()) as provenance:
        found = tuple(attack(model, members, non_members, knowledge, seed=seed) for attack in attacks)
        report = PrivacyReport(
            provenance=provenance(),
            model_name=name or type(model.module).__name__,
            data_name=members.name,
            attacks=found,
            exposed=(),
        )
        best = report.strongest
        shown = [*best.most_exposed(min(COUNT, len(members))), *records]
        exposures = _exposures(best, members, shown, _reasons(model, members.take(shown), knowledge, seed))
        return PrivacyReport(
            provenance=provenance(),
            model_name=report.model_name,
            data_name=report.data_name,
            attacks=found,
            exposed=exposures[: len(shown) - len(records)],
            asked=exposures[len(shown) - len(records) :],
            inverted=reconstruct(model, members, seed=seed),
            guarantee=model.card.guarantee,
        )


def _exposures(
    found: Membership, members: Data, rows: Sequence[int], reasons: Sequence[tuple[str, ...]]
) -> tuple[Exposure, ...]:
    hashes = record_hashes(members.take(rows))
    shares = found.accusations(found.members[list(rows)])
    others = len(found.non_members)
    return tuple(
        Exposure(
            row=row,
            hash=hashes[i][:SHOWN],
            label=members.classes[int(members.y[row])],
            score=float(found.members[row]),
            accused_wrongly=Estimate.rate(round(float(shares[i]) * others), others),
            why=reasons[i],
        )
        for i, row in enumerate(rows)
    )


def _reasons(model: Model, records: Data, knowledge: Knowledge, seed: int) -> list[tuple[str, ...]]:
    """For records of a table, the features whose use by the target, and not by proxies, speaks most for membership."""
    if knowledge.recipe is None or records.features is None:
        return [()] * len(records)
    evidence = BayesianWhiteBox(slices="input", proxies=4).evidence(model, records, knowledge, seed=seed)
    told = []
    for row, values in zip(evidence, records.rows(range(len(records))), strict=True):
        strongest = [int(j) for j in row.argsort(descending=True)[:_REASONS] if row[j] > 0]
        told.append(tuple(f"{records.features[j]} = {float(values[j]):.4g} ({float(row[j]):+.2f})" for j in strongest))
    return told


def privacy_page(found: PrivacyReport, members: Data) -> Page:
    """The page of a model's privacy; `members` are the records that it was measured with."""
    best, pictures = found.strongest, _draw(found, members)
    cards = [
        Card("a member scores above a non-member", percent(best.auc.value), _interval(best.auc), best.auc),
        Card.of_difference("advantage over guessing", best.advantage),
    ]
    for point in best.points:
        title = f"members found at {percent(point.false_positive_rate)} false positives"
        if point.enough:
            cards.append(Card.of_share(title, point.found))
        else:
            cards.append(Card(title, "inconclusive", f"needs {point.needed} non-members, has {point.non_members}"))
    parts = [
        Part("The attacks", tables=(_table_of_attacks(found),), pictures=(pictures["privacy-roc.png"],)),
        Part(
            "The most exposed records",
            "The members that the strongest attack is surest of. The share says how many non-members score as high: "
            "the smaller, the surer. A hash names a record without showing it.",
            tables=(_table_of_records(found.exposed), *table_of_texts(members, [e.row for e in found.exposed])),
            pictures=tuple(picture for name, picture in pictures.items() if name != "privacy-roc.png"),
        ),
    ]
    notes = _notes(found)
    if found.inverted is not None:
        pictures[RECONSTRUCTIONS] = draw_reconstructions(found.inverted, members)
        part, note = tell_reconstructions(found.inverted, pictures[RECONSTRUCTIONS])
        parts.append(part)
        notes += (note,)
    if found.guarantee is not None:
        parts.insert(0, guarantee_part(found.guarantee, found.attacks))
    if found.asked:
        lead = " ".join(each.tell() for each in found.asked)
        tables = (_table_of_records(found.asked), *table_of_texts(members, [e.row for e in found.asked]))
        parts.insert(0, Part("The record in question", lead, tables=tables))
    return Page(
        result=found,
        title=f"What {found.model_name} gives away about {found.data_name}",
        verdict=found.verdict,
        cards=tuple(cards),
        notes=notes,
        notes_title="What to do",
        parts=tuple(parts),
        pictures=pictures,
        repeats=found.attacks,
    )


def _notes(found: PrivacyReport) -> tuple[Note, ...]:
    best = found.strongest
    notes = guarantee_notes(found.guarantee, found.attacks)
    if any(point.claimed for point in best.points):
        severity, label = "high", "high"
    elif best.leaks:
        severity, label = "medium", "medium"
    else:
        severity, label = "unclear", "no leak found"
    if best.leaks:
        remedy = (
            "Train again with differential privacy (modelkeep train-privately), which bounds what any attack reaches; "
            "or stop earlier, regularise (weight decay, dropout), or use more records. Then measure again. Until then, "
            "give labels instead of probabilities where users need no more."
        )
    else:
        remedy = "Nothing now. Measure again after each training, with more non-members and with shadow models."
    notes.append(Note(severity, label, "Membership inference", found.verdict, remedy, TAXONOMY, "privacy/membership"))
    lacking = [point for point in best.points if not point.enough]
    if lacking:
        needed = max(point.needed for point in lacking)
        notes.append(
            Note(
                "unclear",
                "inconclusive",
                "Too few non-members for low false positive rates",
                f"With {lacking[0].non_members} non-members nothing can be claimed at "
                f"{' and '.join(percent(point.false_positive_rate) for point in lacking)} false positives.",
                f"Give {needed} or more records that the model has not seen.",
            )
        )
    return tuple(notes)


def _table_of_attacks(found: PrivacyReport) -> Table:
    rows = []
    for each in sorted(found.attacks, key=lambda result: -result.auc.value):
        points = [percent(p.found.value) if p.enough else "inconclusive" for p in each.points]
        rows.append(
            [each.attack, f"{each.auc.value:.3f}", _interval(each.auc), f"{each.advantage.value:+.3f}", *points]
        )
    rates = [f"found at {percent(p.false_positive_rate)}" for p in found.strongest.points]
    return Table(rows, header=("attack", "AUC", "95 % interval", "advantage", *rates))


def _table_of_records(records: Sequence[Exposure]) -> Table:
    rows = []
    for e in records:
        shares = f"{percent(e.accused_wrongly.value)} (at most {percent(e.accused_wrongly.high)})"
        rows.append([str(e.row), e.hash, e.label, f"{e.score:.3f}", shares, "; ".join(e.why) or "–"])
    header = ("row", "hash", "class", "score", "non-members that score as high", "what gives it away")
    return Table(rows, header=header)


def _interval(estimate: Estimate) -> str:
    return f"{estimate.low:.3f} to {estimate.high:.3f}"


def _draw(found: PrivacyReport, members: Data) -> dict[str, Picture]:
    """The pictures by the names of their files."""
    pictures = {
        "privacy-roc.png": Picture.of(
            draw_roc(sorted(found.attacks, key=lambda each: -each.auc.value)[:6]),
            "True positive rate against false positive rate, both logarithmic",
            "How many members each attack finds, for each share of non-members that it accuses wrongly. On the left "
            "are the accusations that are hardly ever wrong. Bars are 95 % intervals, where there are enough "
            "non-members.",
        )
    }
    if len(members.input_shape) == 3 and members.input_shape[0] in (1, 3) and found.exposed:
        rows = [e.row for e in found.exposed]
        titles = [f"row {e.row}: {e.label}" for e in found.exposed]
        images: torch.Tensor = members.rows(rows)
        pictures["privacy-records.png"] = Picture.of(
            plots.image_grid(images, titles, bounds=members.bounds or (0.0, 1.0)),
            "The most exposed records",
            "The members that the strongest attack is surest of.",
        )
    return pictures
