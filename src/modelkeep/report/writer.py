"""The pages that people read, each one HTML file that opens offline, and the JSON files for machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from modelkeep.attack import Attacked
from modelkeep.attack.curve import RobustnessCurve
from modelkeep.core.results import Estimate, Result
from modelkeep.harden import Hardened, Scoreboard
from modelkeep.report.attack import AttackReport, adversarial_npz, attack_pictures
from modelkeep.report.bias import Bias
from modelkeep.report.explanations import Explanations
from modelkeep.report.hardening import hardening_cards, hardening_notes, hardening_pictures, hardening_verdict
from modelkeep.report.measure import percent
from modelkeep.report.page import environment as page_environment
from modelkeep.report.page import write_files
from modelkeep.report.picture import Picture


def render_explanations(found: Explanations) -> str:
    """The explanations as one self-contained HTML page."""
    return render("explain.html", explanations=found, provenance=found.provenance)


def write_explanations(found: Explanations, folder: str | Path) -> tuple[Path, ...]:
    """Write `explain.html`, `explain.json` and a PNG per picture to `folder`; each replaces an older one."""
    return write_files(
        folder, {"explain.html": render_explanations(found), "explain.json": found.to_json(), **found.pictures()}
    )


def write_bias(found: Bias, folder: str | Path) -> tuple[Path, ...]:
    """Write `bias.html`, `bias.json` and a PNG per picture to `folder`; each replaces an older one."""
    pictures = found.pictures()
    page = render("bias.html", bias=found, pictures=pictures, provenance=found.provenance)
    drawn = {name: picture.png for name, picture in pictures.items()}
    return write_files(folder, {"bias.html": page, "bias.json": found.to_json(), **drawn})


def write_attack(
    found: Attacked, curve: RobustnessCurve | None, *, model_name: str, data_name: str, folder: str | Path
) -> tuple[AttackReport, tuple[Path, ...]]:
    """Write `attack.html`, `attack.json`, `adversarial.npz` and a PNG per picture; the report, and where they are."""
    report = AttackReport.of(found, curve, model_name, data_name)
    title = f"Attacking {model_name} on {data_name}"
    pictures = attack_pictures(found, curve)
    page = _figures(title, report.verdict, report, report.cards, report.health, pictures)
    drawn = {name: picture.png for name, picture in pictures.items()}
    files: dict[str, str | bytes] = {
        "attack.html": page,
        "attack.json": report.to_json(),
        "adversarial.npz": adversarial_npz(found),
        **drawn,
    }
    return report, write_files(folder, files)


def write_hardening(
    found: Hardened | Scoreboard, *, model_name: str, data_name: str, folder: str | Path
) -> tuple[Path, ...]:
    """Write `harden.html`, `harden.json` and a PNG per picture to `folder`; each replaces an older one."""
    title, pictures = f"Hardening {model_name} on {data_name}", hardening_pictures(found)
    page = _figures(title, hardening_verdict(found), found, hardening_cards(found), hardening_notes(found), pictures)
    drawn = {name: picture.png for name, picture in pictures.items()}
    return write_files(folder, {"harden.html": page, "harden.json": found.to_json(), **drawn})


def _figures(
    title: str,
    verdict: str,
    result: Result,
    cards: dict[str, Estimate],
    notes: tuple[str, ...],
    pictures: dict[str, Picture],
) -> str:
    """The page of a result that is told in a few figures and pictures."""
    return render(
        "figures.html",
        title=title,
        verdict=verdict,
        rows=result.rows(),
        cards=cards,
        notes=notes,
        pictures=pictures,
        provenance=result.provenance,
    )


def render(template: str, **values: Any) -> str:
    """The template filled with these values: one self-contained HTML page."""
    environment = page_environment()
    environment.filters["percent"] = percent
    return environment.get_template(template).render(values)
