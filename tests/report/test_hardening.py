"""The page of defences: which hold, and what the attacks noticed about themselves."""

from __future__ import annotations

from dataclasses import replace

from modelkeep import Estimate
from modelkeep.core.results import Provenance
from modelkeep.harden import Scoreboard, Scored
from modelkeep.harden.score import Verdict
from modelkeep.report import hardening_page
from modelkeep.report.attack import health_notes

PROVENANCE = Provenance("m", "d", 0, 1.0, "0")


def scored(verdict: Verdict, adaptive: float, *health: str) -> Scored:
    share, held = Estimate.rate(90, 100), Estimate.rate(int(100 * adaptive), 100)
    return Scored(
        provenance=PROVENANCE,
        attack="PGD",
        norm="linf",
        radius=0.1,
        undefended=Estimate.rate(5, 100),
        clean=share,
        ignoring=held,
        adaptive=held,
        health=health,
        verdict=verdict,
    )


def test_the_board_names_what_holds_and_what_the_attack_missed() -> None:
    scores = {"trained": scored("holds", 0.6), "rounded": scored("does not hold", 0.1, "gradients may be masked")}
    found = Scoreboard(
        provenance=PROVENANCE, clean=Estimate.rate(95, 100), attacked=Estimate.rate(5, 100), scores=scores
    )
    page = hardening_page(found, model_name="net", data_name="digits")
    assert page.verdict.startswith("Against an attack that knows them, these defences hold: trained. Unclear: none.")
    assert [card.title for card in page.cards][-1] == "the best that holds, attacked: trained"
    assert not any(note.severity == "good" for note in health_notes(())), "a sound attack says nothing good of a model"
    trades = {"trades": scored("does not hold", 0.9), "rounded": scored("does not hold", 0.1)}
    none = hardening_page(replace(found, scores=trades), model_name="net", data_name="digits")
    assert none.cards[-1].title == "none holds; most accurate, attacked: trades"
    assert [(note.severity, note.text) for note in page.notes] == [("medium", "Rounded: gradients may be masked.")]
    assert list(page.pictures) == ["harden.png"]
