"""What membership attacks reached beside what the guarantee of a private training allows."""

from __future__ import annotations

from collections.abc import Sequence

from modelkeep.core.guarantee import Guarantee
from modelkeep.privacy import Membership
from modelkeep.privacy.private_training import advantage_bounds
from modelkeep.report.page import Note, Part, Table
from modelkeep.report.taxonomy import classify


def guarantee_rows(guarantee: Guarantee | None, attacks: Sequence[Membership]) -> list[tuple[str, str]]:
    """What the model's file guarantees, what that allows, and the most that was reached; nothing without one."""
    if guarantee is None:
        return []
    loose, tight = advantage_bounds(guarantee.epsilon, guarantee.delta)
    best = max(attacks, key=lambda found: found.advantage.value)
    return [
        ("its file guarantees", str(guarantee)),
        ("advantage, at most", f"{tight:.3g} (e^ε − 1 {'is vacuous' if loose >= 1 else f'= {loose:.3g}'})"),
        ("advantage, measured", f"{best.advantage} by {best.attack}"),
    ]


def tell_guarantee(guarantee: Guarantee | None, attacks: Sequence[Membership]) -> str:
    """The same in a sentence; empty without a guarantee."""
    if guarantee is None:
        return ""
    best = max(attacks, key=lambda found: found.advantage.value)
    _, tight = advantage_bounds(guarantee.epsilon, guarantee.delta)
    return (
        f" Its file says {guarantee}, which allows an advantage of {tight:.3g}; the largest measured is "
        f"{best.advantage.value:.3f} ({best.advantage.low:.3f} to {best.advantage.high:.3f})."
    )


def guarantee_part(guarantee: Guarantee, attacks: Sequence[Membership]) -> Part:
    """The section of a page that puts the measured advantage beside the bounds."""
    lead = "The file of the model says that it was trained privately. No attack on the weights should reach more."
    return Part("Beside the guarantee", lead, tables=(Table(guarantee_rows(guarantee, attacks)),))


def guarantee_notes(guarantee: Guarantee | None, attacks: Sequence[Membership]) -> list[Note]:
    """A note where an advantage lies above what the guarantee allows, beyond doubt."""
    if guarantee is None:
        return []
    _, tight = advantage_bounds(guarantee.epsilon, guarantee.delta)
    above = [found for found in attacks if found.advantage.low > tight]
    if not above:
        return []
    text = f"{above[0].attack} has an advantage of {above[0].advantage}, and {guarantee} allows {tight:.3g}."
    remedy = (
        "Do not rely on the guarantee. Are the members those that the model was trained on, each of them once? If so, "
        "the training is wrong: `modelkeep train-privately --audit one-run` tests it."
    )
    return [
        Note("high", "high", "The guarantee does not hold", text, remedy, classify("membership"), "privacy/guarantee")
    ]
