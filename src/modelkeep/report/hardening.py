"""The page of a hardened model, or of a board of defences."""

from __future__ import annotations

from modelkeep.core.results import Estimate
from modelkeep.harden import Hardened, Scoreboard
from modelkeep.report.attack import health_notes
from modelkeep.report.page import Card, Page, Part, Table
from modelkeep.report.picture import Picture
from modelkeep.report.verdicts import hardening_verdict


def hardening_page(found: Hardened | Scoreboard, *, model_name: str, data_name: str) -> Page:
    """The page of what hardening changed, or of which defences hold."""
    caption = "Accuracy, with its 95 % interval, under an attack that knows the defence."
    pictures = {"harden.png": Picture.of(found.draw(), hardening_verdict(found), caption)}
    if isinstance(found, Scoreboard):
        health = tuple(f"{name}: {note}" for name, score in found.scores.items() for note in score.health)
    else:
        health = found.health
        pictures["harden-training.png"] = Picture.of(
            found.training.draw(), "Loss and accuracy during training", "How the training went."
        )
    return Page(
        result=found,
        title=f"Hardening {model_name} on {data_name}",
        verdict=hardening_verdict(found),
        cards=tuple(Card.of_share(title, share) for title, share in _measures(found).items()),
        notes=health_notes(health),
        parts=(Part("In figures", tables=(Table(found.rows()),)), Part("Pictures", pictures=tuple(pictures.values()))),
        pictures=pictures,
    )


def _measures(found: Hardened | Scoreboard) -> dict[str, Estimate]:
    if isinstance(found, Hardened):
        return {
            "clean, before": found.clean_before,
            "clean, after": found.clean_after,
            "attacked, before": found.attacked_before,
            "attacked, after": found.attacked_after,
        }
    best = max(
        found.scores, key=lambda name: (found.scores[name].verdict == "holds", found.scores[name].adaptive.value)
    )
    holds = found.scores[best].verdict == "holds"
    title = f"the best that holds, attacked: {best}" if holds else f"none holds; most accurate, attacked: {best}"
    return {
        "undefended, clean": found.clean,
        "undefended, attacked": found.attacked,
        title: found.scores[best].adaptive,
    }
