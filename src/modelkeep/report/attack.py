"""The page of an attack: figures, pictures, and the inputs that it found, to look at or to train on."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from operator import not_
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from modelkeep.attack import Attacked
from modelkeep.attack.curve import RobustnessCurve
from modelkeep.attack.result import Rewritten
from modelkeep.core import plots
from modelkeep.core.results import Estimate, Result
from modelkeep.report.measure import percent
from modelkeep.report.page import Card, Note, Page, Part, Table
from modelkeep.report.picture import Picture
from modelkeep.report.verdicts import attack_verdict

_MOST_TEXTS = 20


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackReport(Result, kind="attack-report"):
    """What an attack found, in figures; the inputs themselves are in `adversarial.npz`."""

    model_name: str
    data_name: str
    attack: str
    norm: str
    size: str
    target: str | None
    clean: Estimate
    robust: Estimate
    success: Estimate | None
    median_distance: float | None
    solved_by: dict[str, int]
    queries: int
    gradients: int
    health: tuple[str, ...]
    curve: RobustnessCurve | None
    texts: Annotated[tuple[Rewritten, ...], Field(exclude_if=not_)] = field(default=(), repr=False)

    @classmethod
    def of(cls, found: Attacked, curve: RobustnessCurve | None, model_name: str, data_name: str) -> AttackReport:
        """The figures of what was found."""
        distances = found.distance[found.success & (found.distance > 0)]
        return cls(
            provenance=found.provenance,
            model_name=model_name,
            data_name=data_name,
            attack=found.attack,
            norm=found.norm,
            size=found.size,
            target=found.target,
            clean=found.clean_accuracy,
            robust=found.robust_accuracy,
            success=found.success_rate,
            median_distance=float(distances.median()) if len(distances) else None,
            solved_by=found.solved_by,
            queries=found.queries,
            gradients=found.gradients,
            health=found.health,
            curve=curve,
            texts=found.texts,
        )

    @property
    def verdict(self) -> str:
        """What was found, in two sentences."""
        return attack_verdict(self)

    def rows(self) -> list[tuple[str, str]]:
        rows = [
            ("attack", f"{self.attack} {self.norm}, {self.size}"),
            ("accuracy, clean", str(self.clean)),
            ("accuracy, attacked", str(self.robust)),
            ("success rate", "nothing to attack" if self.success is None else str(self.success)),
            ("median distance", "–" if self.median_distance is None else f"{self.median_distance:.4g}"),
            ("passes", f"{self.queries:,} forward, {self.gradients:,} backward"),
        ]
        if len(self.solved_by) > 1:
            rows.append(("solved by", ", ".join(f"{name} {count}" for name, count in self.solved_by.items())))
        rows += [(f"words of text {text.index}", str(text)) for text in self.texts[:5]]
        if self.curve is not None:
            rows += [
                (f"accuracy at {radius:.3g}", str(e))
                for radius, e in zip(self.curve.radii, self.curve.accuracy, strict=True)
            ]
        return [*rows, ("health", "; ".join(self.health) or "nothing suspicious")]


def attack_page(
    found: Attacked, curve: RobustnessCurve | None, *, model_name: str, data_name: str
) -> tuple[AttackReport, Page]:
    """The figures of an attack, and its page."""
    report = AttackReport.of(found, curve, model_name, data_name)
    cards = {"accuracy, clean": report.clean, f"accuracy, attacked ({report.norm}, {report.size})": report.robust}
    if report.success is not None:
        cards["of those that could be won, won"] = report.success
    pictures = _draw(found, curve)
    return report, Page(
        result=report,
        title=f"Attacking {model_name} on {data_name}",
        verdict=report.verdict,
        cards=tuple(Card.of_share(title, share) for title, share in cards.items()),
        notes=health_notes(report.health),
        parts=(
            Part("In figures", tables=(Table(report.rows()),)),
            *_rewritten(found),
            Part("Pictures", pictures=tuple(pictures.values())),
        ),
        pictures=pictures,
    )


def _rewritten(found: Attacked) -> tuple[Part, ...]:
    """The first of the texts that were changed, where there are any."""
    if not found.texts:
        return ()
    lead = (
        "What stood there before is struck out. Each changed text was asked again, and is answered as the figures say."
    )
    return (Part(f"{len(found.texts)} texts that were changed", lead, texts=found.texts[:_MOST_TEXTS]),)


def health_notes(health: tuple[str, ...]) -> tuple[Note, ...]:
    """What an attack noticed about itself, or that it noticed nothing."""
    if not health:
        # Grey: that the attack worked well says nothing good about the model.
        checked = "Gradients, convergence and randomness were in order, so its figures can be trusted."
        return (Note("unclear", "the attack", "Nothing suspicious about the attack", checked),)
    title = "The attack may have missed something"
    return tuple(Note("medium", "the attack", title, f"{note[0].upper()}{note[1:]}.") for note in health)


def _draw(found: Attacked, curve: RobustnessCurve | None) -> dict[str, Picture]:
    """The pictures by the names of their files."""
    pictures = {}
    if found.original.ndim == 4 and bool((found.success & (found.distance > 0)).any()):
        pictures["attack.png"] = Picture.of(
            found.draw(),
            "Originals, changes and adversarial inputs",
            "The original and how it is answered, the change (grey is none; drawn as strong as can be), and the "
            "changed input with the answer that it gets.",
        )
    if curve is not None:
        pictures["attack-curve.png"] = Picture.of(
            curve.draw(),
            f"Accuracy falls from {percent(curve.accuracy[0].value)} to {percent(curve.accuracy[-1].value)} as the "
            f"change grows to {curve.radii[-1]:.3g}",
            "Accuracy if inputs may be changed by this much. The band is the 95 % interval.",
        )
    bars = {"clean": found.clean_accuracy, "attacked": found.robust_accuracy}
    if not pictures:
        drawn = plots.bars(bars, x_label="accuracy")
        pictures["attack.png"] = Picture.of(drawn, "Accuracy before and after", "Accuracy, with its 95 % interval.")
    return pictures


def adversarial_npz(found: Attacked) -> bytes:
    """The adversarial inputs with their true labels, as a file that `--data` reads again.

    `x` are the inputs of all examples, the original where the attack failed; `original`, `success` and `answer` go
    with them.
    """
    arrays: dict[str, Any] = {
        "x": found.adversarial.numpy(),
        "y": found.labels.numpy(),
        "classes": np.array(found.classes),
        "original": found.original.numpy(),
        "success": found.success.numpy(),
        "answer": found.after.numpy(),
    }
    if found.bounds is not None:
        arrays["bounds"] = np.array(found.bounds)
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()
