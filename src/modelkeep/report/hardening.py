"""Hardening: what a hardened model, or a board of defences, looks like on a page."""

from __future__ import annotations

from modelkeep.core.results import Estimate
from modelkeep.harden import Hardened, Scoreboard
from modelkeep.report.measure import percent
from modelkeep.report.picture import Picture


def hardening_verdict(found: Hardened | Scoreboard) -> str:
    """What was found, in one or two sentences."""
    if isinstance(found, Hardened):
        return (
            f"Under {found.attack} in {found.norm} at radius {found.radius:g}, accuracy goes from "
            f"{percent(found.attacked_before.value)} to {percent(found.attacked_after.value)}, and on clean inputs "
            f"from {percent(found.clean_before.value)} to {percent(found.clean_after.value)}. "
            f"Verdict: {found.verdict}."
        )
    by_verdict = {
        verdict: [n for n, s in found.scores.items() if s.verdict == verdict] for verdict in ("holds", "unclear")
    }
    hold, unclear = (", ".join(names) or "none" for names in by_verdict.values())
    return f"Against an attack that knows them, these defences hold: {hold}. Unclear: {unclear}. The others do not."


def hardening_cards(found: Hardened | Scoreboard) -> dict[str, Estimate]:
    """The main measures."""
    if isinstance(found, Hardened):
        return {
            "clean, before": found.clean_before,
            "clean, after": found.clean_after,
            "attacked, before": found.attacked_before,
            "attacked, after": found.attacked_after,
        }
    best = max(found.scores, key=lambda name: found.scores[name].adaptive.value)
    return {
        "undefended, clean": found.clean,
        "undefended, attacked": found.attacked,
        f"the best, attacked: {best}": found.scores[best].adaptive,
    }


def hardening_pictures(found: Hardened | Scoreboard) -> dict[str, Picture]:
    """The pictures by the names of their files."""
    caption = "Accuracy, with its 95 % interval, under an attack that knows the defence."
    pictures = {"harden.png": Picture.of(found.draw(), "Accuracy before and after", caption)}
    if isinstance(found, Hardened):
        pictures["harden-training.png"] = Picture.of(
            found.training.draw(), "Loss and accuracy during training", "How the training went."
        )
    return pictures


def hardening_notes(found: Hardened | Scoreboard) -> tuple[str, ...]:
    """What the attacks noticed."""
    if isinstance(found, Hardened):
        return found.health
    return tuple(f"{name}: {note}" for name, score in found.scores.items() for note in score.health)
