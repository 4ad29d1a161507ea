"""The page of privacy: who can be found in the training data, how surely, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch

from modelkeep.core import plots
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.guarantee import Guarantee
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, Tensor, measured
from modelkeep.privacy import Knowledge, Membership, MembershipAttack
from modelkeep.privacy.inversion import Inverted
from modelkeep.privacy.membership.result import choose_strongest, draw_roc
from modelkeep.report.exposure import Exposure, find_exposures, find_reasons
from modelkeep.report.guarantee import guarantee_notes, guarantee_part, guarantee_rows
from modelkeep.report.measure import percent
from modelkeep.report.page import Card, Note, Page, Part, Table
from modelkeep.report.picture import Picture
from modelkeep.report.reconstructions import NAME as RECONSTRUCTIONS
from modelkeep.report.reconstructions import draw_reconstructions, reconstruct, tell_reconstructions
from modelkeep.report.taxonomy import classify
from modelkeep.report.words import table_of_texts

COUNT = 8
"""The most exposed records that a page shows."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivacyReport(Result, kind="privacy"):
    """What each attack found, and the members that the strongest of them (by its area) is surest of.

    `guarantee` is what the model's file says about its training: no attack should reach more than it allows.
    The strongest is chosen by its outcome. So the intervals of all attacks are widened to hold together at 95 %.
    `evidence: (n, h, w)` says of pictures which pixels give the exposed records away.
    """

    model_name: str
    data_name: str
    attacks: tuple[Membership, ...]
    exposed: tuple[Exposure, ...]
    asked: tuple[Exposure, ...] = ()
    inverted: Inverted | None = None
    guarantee: Guarantee | None = None
    evidence: Tensor | None = field(default=None, repr=False)

    @property
    def strongest(self) -> Membership:
        """The attack with the largest area under its curve; one that shows a leak beyond doubt comes first."""
        return choose_strongest(self.attacks)

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

    def numbered(self, rows: Sequence[int]) -> PrivacyReport:
        """The same, with `rows[i]` as the number of member `i`: its row in a file that holds others, too."""
        exposed, asked = (
            tuple(replace(each, row=rows[each.row]) for each in part) for part in (self.exposed, self.asked)
        )
        inverted = self.inverted
        if inverted is not None and inverted.example is not None:
            inverted = replace(inverted, example=torch.tensor(rows)[inverted.example])
        return replace(self, exposed=exposed, asked=asked, inverted=inverted)

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
        found = tuple(
            attack(model, members, non_members, knowledge, seed=seed).among(len(attacks)) for attack in attacks
        )
        report = PrivacyReport(
            provenance=provenance(),
            model_name=name or type(model.module).__name__,
            data_name=members.name,
            attacks=found,
            exposed=(),
        )
        best = report.strongest
        shown = best.most_exposed(min(COUNT, len(members)))
        reasons = find_reasons(model, members.take([*shown, *records]), non_members, knowledge, seed)
        return replace(
            report,
            provenance=provenance(),
            exposed=find_exposures(best, members, shown, reasons.told[: len(shown)], len(attacks)),
            asked=find_exposures(best, members, records, reasons.told[len(shown) :], len(attacks)),
            evidence=reasons.evidence,
            inverted=reconstruct(model, members, seed=seed),
            guarantee=model.card.guarantee,
        )


def privacy_page(found: PrivacyReport, members: Data) -> Page:
    """The page of a model's privacy; `members` are the records that the report numbers."""
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
        Part("The attacks", _lead(found), tables=(_table_of_attacks(found),), pictures=(pictures["privacy-roc.png"],)),
        Part(
            "The most exposed records",
            "The members that the strongest attack is surest of. The share says how many non-members score as high: "
            "the smaller, the surer; the limits of all records hold together at 95 %. A hash names a record without "
            "showing it.",
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
        verdict_level=notes[0].severity,
        cards=tuple(cards),
        notes=notes,
        notes_title="What to do",
        parts=tuple(parts),
        pictures=pictures,
        repeats=found.attacks,
    )


def _lead(found: PrivacyReport) -> str:
    if len(found.attacks) == 1:
        return "The intervals of all measures hold together at 95 %: a leak counts by whichever of them shows it."
    return (
        f"The strongest of {len(found.attacks)} attacks was chosen by its outcome, which alone would make chance look "
        "like a leak. So each interval is wide enough that those of all attacks and measures hold together at 95 % "
        "(Bonferroni)."
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
    notes.append(
        Note(
            severity, label, "Membership inference", found.verdict, remedy, classify("membership"), "privacy/membership"
        )
    )
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
    return Table(rows, header=("attack", "AUC", "interval", "advantage", *rates))


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
            f"True positive rate against false positive rate, both logarithmic. {found.verdict}",
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
        if found.evidence is not None:
            maps = found.evidence[: len(rows), None].clamp_min(0)
            strongest = maps.amax(dim=(1, 2, 3), keepdim=True).clamp_min(1e-9)
            pictures["privacy-evidence.png"] = Picture.of(
                plots.image_grid(maps / strongest, titles, bounds=(0.0, 1.0)),
                "The pixels that give these records away",
                "Bright pixels are used by the model in favour of the record's class more than by proxies that learned "
                "other records (Leino2022, algorithm 8.3 at the input).",
            )
    return pictures
