"""Audit: all checks on one model and one data set, as one result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, cast

from modelkeep.audit.cost import measure_pace, run_within
from modelkeep.audit.findings import RANK, Finding, Section
from modelkeep.audit.texts import for_texts
from modelkeep.core import progress
from modelkeep.core.access import needs_more
from modelkeep.core.adapter import owner_of
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.method import check_settings, options_of, recorded, setting
from modelkeep.core.model import Model
from modelkeep.core.registry import declarations, find
from modelkeep.core.results import Result, measured
from modelkeep.report.measure import Measure

# The order in which a person reads them; those of other packages follow.
ORDER = ("accuracy", "robustness", "certification", "influence", "amplification", "shortcuts", "membership")


@dataclass(frozen=True)
class Settings:
    """How much to look at. Each check takes the settings that it has.

    Radii are shares of the range of an input (of its spread, where it has no range): 0.03 is about 8 of 255 grey
    levels.
    """

    examples: int = setting("Examples to attack and explain, drawn by the seed.", default=256, at_least=1)
    radii: tuple[float, ...] = setting("Sizes of the changes, rising.", default=(0.01, 0.03, 0.1))
    steps: int = setting("Steps of the attack.", default=40, at_least=1)
    slice: str | None = setting("The inner place to explain; else the last before the logits.", default=None)
    attack: str = setting("The attack, by its name in the registry.", default="pgd")
    checks: tuple[str, ...] | None = setting("Which checks, by their names in the registry; else all.", default=None)

    minutes: float = setting(
        "Minutes that a check may take by its estimate; one that would take longer is not run.", default=10.0, above=0
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if not self.radii or list(self.radii) != sorted(set(self.radii)) or not self.radii[0] > 0:
            raise bad_parameter("Settings", "radii", "rising numbers above 0", self.radii)

    def plan(self) -> dict[str, Callable[..., Section]]:
        """The checks by their names, in the order in which they run; an unknown name is refused."""
        known = declarations("check")
        every = (*(name for name in ORDER if name in known), *(name for name in known if name not in ORDER))
        kinds = {name: find("check", name).load() for name in (every if self.checks is None else self.checks)}
        return {name: kind(**self._for(kind)) for name, kind in kinds.items()}

    def _for(self, kind: type) -> dict[str, Any]:
        own = {each.name for each in fields(self)}
        return {option.name: getattr(self, option.name) for option in options_of(kind) if option.name in own}


@dataclass(frozen=True, kw_only=True, eq=False)
class Audit(Result, kind="audit"):
    """What an audit found, section by section."""

    model_name: str
    data_name: str
    description: str
    headline: tuple[Measure, ...]
    sections: tuple[Section, ...]
    train_name: str = ""

    @property
    def python(self) -> str:
        """The Python line that makes this audit again; empty for one that was stored before it was kept."""
        p = self.provenance
        train = ", train=train" if self.train_name else ""
        return f"audit(model, data, {p.python}{train}, seed={p.seed})" if p.python else ""

    @property
    def command(self) -> str:
        """The command that makes this audit again; empty where a setting can be given in Python only."""
        p = self.provenance
        if not p.python or "…" in p.options:
            return ""
        train = "--train TRAIN" if self.train_name else ""
        return " ".join(filter(None, ["modelkeep audit MODEL --data DATA", train, p.options, f"--seed {p.seed}"]))

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


def audit(
    model: Model,
    data: Data,
    settings: Settings | None = None,
    *,
    train: Data | None = None,
    seed: int = 0,
    name: str = "",
) -> Audit:
    """Run every check on up to `settings.examples` examples of `data`; with `train`, also those of training data.

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
    checks = give_training_data(settings.plan(), train, chosen=settings.checks is not None)
    missed = [] if settings.checks is not None else [name for name, check in checks.items() if needs_more(check, model)]
    checks = {name: check for name, check in checks.items() if name not in missed}
    with measured(seed, model.fingerprint(), data.fingerprint(), model.warnings) as provenance:
        sections = []
        texts = model.nest is not None and model.nest.tokens is not None
        pace = measure_pace(model, data)
        with progress.task("audit", len(checks)) as task:
            for name_of_check, check in checks.items():
                task.advance(0, note=name_of_check)
                run = for_texts(name_of_check, check) if texts else check
                sections.append(run_within(name_of_check, run, model, data, pace, minutes=settings.minutes, seed=seed))
                task.advance()
        found = Audit(
            provenance=provenance(),
            model_name=name or type(owner_of(model.module)).__name__,
            data_name=data.name,
            description=f"{len(model.classes)} classes, inputs of shape {model.input_shape}. Checked on {len(data)} "
            f"examples of '{data.name}'; attacks and explanations on {min(settings.examples, len(data))} of them."
            + _say_missed(model, missed)
            + _say_not_run(sections),
            headline=_headline(sections),
            sections=tuple(sections),
            train_name="" if train is None else train.name,
        )
    return recorded(found, settings)


def give_training_data(
    checks: dict[str, Callable[..., Section]], train: Data | None, *, chosen: bool
) -> dict[str, Callable[..., Section]]:
    """The checks, of which those with a setting `train` have the training data; without it only a `chosen` one runs."""
    given = {}
    for name, check in checks.items():
        wants = is_dataclass(check) and any(each.name == "train" for each in fields(check))
        if not wants:
            given[name] = check
        elif train is not None or chosen:
            given[name] = replace(cast(Any, check), train=train)
    return given


def _say_missed(model: Model, missed: Sequence[str]) -> str:
    if not missed:
        return ""
    return f" Not checked, because this model only answers with {model.access}: {', '.join(missed)}."


def _say_not_run(sections: Sequence[Section]) -> str:
    late = [finding.id.partition(".")[0] for s in sections for finding in s.findings if finding.id.endswith(".not-run")]
    return f" Not run, as it would take too long: {', '.join(late)}." if late else ""


def _headline(sections: Sequence[Section]) -> tuple[Measure, ...]:
    """Accuracy, then the main measures of the sections with the gravest findings: four, as many as fit on a line."""

    def gravity(section: Section) -> int:
        return min((RANK[finding.severity] for finding in section.findings), default=len(RANK))

    measured = [section for section in sections if section.measures]
    ordered = [*measured[:1], *sorted(measured[1:], key=gravity)]
    return tuple(section.measures[0] for section in ordered[:4])
