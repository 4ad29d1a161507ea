"""Audit: all checks on one model and one data set, as one result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from modelkeep.audit.accuracy import check_accuracy
from modelkeep.audit.amplification import check_amplification
from modelkeep.audit.certification import check_certification
from modelkeep.audit.findings import RANK, Finding, Section
from modelkeep.audit.influence import check_influence
from modelkeep.audit.robustness import check_robustness
from modelkeep.audit.shortcuts import check_shortcuts
from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.results import Result, measured
from modelkeep.report.measure import Measure


@dataclass(frozen=True)
class Settings:
    """How much to look at: so many `examples`, attacks of so many `steps` at these `radii`.

    Radii are shares of the range of an input (of its spread, where it has no range): 0.03 is about 8 of 255 grey
    levels. `slice` names the inner place to explain; None takes the last one before the logits.
    """

    examples: int = 256
    radii: tuple[float, ...] = (0.01, 0.03, 0.1)
    steps: int = 40
    slice: str | None = None

    def __post_init__(self) -> None:
        if self.examples < 1:
            raise bad_parameter("Settings", "examples", "at least 1", self.examples)
        if not self.radii or list(self.radii) != sorted(set(self.radii)) or not self.radii[0] > 0:
            raise bad_parameter("Settings", "radii", "rising numbers above 0", self.radii)
        if self.steps < 1:
            raise bad_parameter("Settings", "steps", "at least 1", self.steps)


@dataclass(frozen=True, kw_only=True, eq=False)
class Audit(Result, kind="audit"):
    """What an audit found, section by section."""

    model_name: str
    data_name: str
    description: str
    headline: tuple[Measure, ...]
    sections: tuple[Section, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, the most important first."""
        found = [finding for section in self.sections for finding in section.findings]
        return tuple(sorted(found, key=lambda finding: (RANK[finding.severity], -finding.weight)))

    def rows(self) -> list[tuple[str, str]]:
        return [
            *((measure.name, str(measure.estimate)) for measure in self.headline),
            *((finding.severity, finding.title) for finding in self.findings),
        ]


def audit(model: Model, data: Data, settings: Settings | None = None, *, seed: int, name: str = "") -> Audit:
    """Run every check on up to `settings.examples` examples of `data`.

    >>> import torch
    >>> from modelkeep import datasets
    >>> module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    >>> _ = torch.nn.init.zeros_(module[1].weight)  # it always says the same
    >>> model = Model(module, input_shape=(1, 8, 8), classes=10)
    >>> audit(model, datasets.load("digits", "test"), Settings(examples=20, steps=2), seed=0).findings[0].severity
    'high'
    """
    settings = settings if settings is not None else Settings()
    model.require_fit(data)
    looked_at = data.sample(min(settings.examples, len(data)), seed)
    checks: dict[str, Callable[[], Section]] = {
        "accuracy": lambda: check_accuracy(model, data),
        "robustness": lambda: check_robustness(model, looked_at, settings.radii, settings.steps, seed),
        "certification": lambda: check_certification(model, looked_at, settings.radii, seed),
        "influence": lambda: check_influence(model, data, looked_at, settings.slice, seed),
        "bias": lambda: check_amplification(model, data, seed),
        "shortcuts": lambda: check_shortcuts(model, looked_at, seed),
    }
    with measured(seed, model.fingerprint(), data.fingerprint()) as provenance:
        sections = []
        with progress.task("audit", len(checks)) as task:
            for name_of_check, check in checks.items():
                sections.append(check())
                task.advance(note=name_of_check)
        return Audit(
            provenance=provenance(),
            model_name=name or type(model.module).__name__,
            data_name=data.name,
            description=f"{len(model.classes)} classes, inputs of shape {model.input_shape}. Checked on {len(data)} "
            f"examples of '{data.name}'. Attacks and explanations looked at {len(looked_at)} of them.",
            headline=_headline(sections),
            sections=tuple(sections),
        )


def _headline(sections: Sequence[Section]) -> tuple[Measure, ...]:
    """Accuracy, then the main measures of the sections with the gravest findings: four, as many as fit on a line."""

    def gravity(section: Section) -> int:
        return min((RANK[finding.severity] for finding in section.findings), default=len(RANK))

    measured = [section for section in sections if section.measures]
    ordered = [*measured[:1], *sorted(measured[1:], key=gravity)]
    return tuple(section.measures[0] for section in ordered[:4])
