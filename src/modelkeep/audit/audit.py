"""Audit: all checks that fit on one model and one data set, as one result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import inf
from operator import not_
from time import monotonic
from typing import Annotated, ClassVar

from pydantic import Field

from modelkeep.audit.again import repeatable
from modelkeep.audit.cost import measure_pace
from modelkeep.audit.findings import RANK, Finding, Section
from modelkeep.audit.journal import Journal
from modelkeep.audit.plan import Plan, Step, make_plan, not_run
from modelkeep.audit.settings import ORDER, Settings
from modelkeep.audit.sources import Sources
from modelkeep.audit.verdict import Verdict, decide
from modelkeep.core import progress
from modelkeep.core.adapter import owner_of
from modelkeep.core.data import Data
from modelkeep.core.errors import OutOfTime
from modelkeep.core.method import recorded
from modelkeep.core.model import Model
from modelkeep.core.results import Result, measured
from modelkeep.report.measure import Measure
from modelkeep.report.taxonomy import classify

# Estimates are made before the start on a machine that may be busy later: a run may take this many times its budget.
_PATIENCE = 2


@dataclass(frozen=True)
class Timed:
    """What one check was estimated to take and took, in seconds, and how deep it went."""

    check: str
    estimated: float
    took: float
    depth: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Audit(Result, kind="audit"):
    """What an audit found, section by section. `stopped` says that a person ended it before all checks had run."""

    schema: ClassVar[int] = 2
    older_schemas: ClassVar[tuple[int, ...]] = (1,)

    model_name: str
    data_name: str
    description: str
    headline: tuple[Measure, ...]
    sections: tuple[Section, ...]
    train_name: str = ""
    date: str = ""
    sources: Sources = field(default_factory=Sources)
    times: tuple[Timed, ...] = ()
    minutes: float | None = None
    stopped: Annotated[bool, Field(exclude_if=not_)] = False

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
        line = " ".join(filter(None, ["modelkeep audit MODEL --data DATA", train, p.options, f"--seed {p.seed}"]))
        return self.sources.fill(line.replace("--minutes", "--budget"))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, the most important first."""
        found = [finding for section in self.sections for finding in section.findings]
        return tuple(sorted(found, key=lambda finding: (RANK[finding.severity], finding.skipped, -finding.weight)))

    def restrict(self, other: Audit) -> Audit:
        """This audit with those sections only whose checks the other one has, too."""
        checks = {section.check for section in other.sections}
        return replace(self, sections=tuple(section for section in self.sections if section.check in checks))

    @property
    def verdict(self) -> Verdict:
        """The one line that a manager reads."""
        return decide(self.findings, stopped=self.stopped)

    def rows(self) -> list[tuple[str, str]]:
        return [
            ("verdict", self.verdict.line),
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
    sources: Sources | None = None,
    journal: Journal | None = None,
    plan: Plan | None = None,
) -> Audit:
    """Run the checks that fit on `data`; with `train`, also those of training data.

    The `plan` is made here unless it is given (`plan_audit`). `sources` are the names by which a command line finds
    the model and the data again. A `journal` keeps each finished check, so that an audit that was killed goes on where
    it was. Ctrl-C ends the audit, not the program: what was finished is in the result, which says that it was
    `stopped`.

    >>> import torch
    >>> from modelkeep import datasets
    >>> module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    >>> _ = torch.nn.init.zeros_(module[1].weight)  # it always says the same
    >>> model = Model(module, input_shape=(1, 8, 8), classes=10)
    >>> settings = Settings(examples=20, steps=2, checks=("accuracy",))
    >>> audit(model, datasets.load("digits", "test"), settings, seed=0).findings[0].severity
    'high'
    """
    settings = settings if settings is not None else Settings()
    sources = sources if sources is not None else Sources()
    with measured(seed, model.fingerprint(), data.fingerprint(), model.warnings) as provenance:
        plan = plan if plan is not None else plan_audit(model, data, settings, train=train, sources=sources)
        done, stopped = _run(plan, model, data, train, seed, journal if journal is not None else Journal(None))
        sections = [_finish(section, sources) for section in _in_order(settings, plan, done)]
        found = Audit(
            provenance=provenance(),
            model_name=name or type(owner_of(model.module)).__name__,
            data_name=data.name,
            description=f"{len(model.classes)} classes, inputs of shape {model.input_shape}. Checked on {len(data)} "
            f"examples of '{data.name}'; attacks and explanations on {min(settings.examples, len(data))} of them.",
            headline=_headline(sections),
            sections=tuple(sections),
            train_name="" if train is None else train.name,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            sources=sources,
            # In the order of the page: that in which they ran follows the estimates, which no two runs share.
            times=tuple(done[section.check][1] for section in sections if section.check in done),
            minutes=settings.minutes,
            stopped=stopped,
        )
    return recorded(found, settings)


def plan_audit(
    model: Model, data: Data, settings: Settings, *, train: Data | None = None, sources: Sources | None = None
) -> Plan:
    """What an audit with these settings would run, and how long it would take."""
    model.require_fit(data)
    checks = settings.prepare_checks(model, train=train, sources=sources if sources is not None else Sources())
    return make_plan(checks, model, data, measure_pace(model, data), minutes=settings.minutes, first=ORDER)


def _run(
    plan: Plan, model: Model, data: Data, train: Data | None, seed: int, journal: Journal
) -> tuple[dict[str, tuple[Section, Timed]], bool]:
    """The sections of the steps by the names of their checks, and whether a person stopped it."""
    done: dict[str, tuple[Section, Timed]] = {}
    ends = monotonic() + _PATIENCE * 60 * plan.minutes
    with progress.task("audit", len(plan.steps)) as task:
        for step in plan.steps:
            task.advance(0, note=step.name)
            began = monotonic()
            try:
                kept = journal.recall(step, model, data, train, seed)
                section = kept.section or kept.keep(run_step(step, model, data, seed, max(1.0, ends - began)))
            except KeyboardInterrupt:
                return done, True
            done[step.name] = section, Timed(step.name, step.seconds, monotonic() - began, step.depth)
            task.advance()
    return done, False


def run_step(step: Step, model: Model, data: Data, seed: int, seconds: float = inf) -> Section:
    """The section of one check; one that says so where the seconds were over."""
    try:
        with progress.limit(seconds):
            return repeatable(step.check(model, data, seed=seed), step.name, step.check, seed)
    except OutOfTime as late:
        return not_run(replace(step, why=f"It was stopped when the budget was spent. {late}"))


def _in_order(settings: Settings, plan: Plan, done: Mapping[str, tuple[Section, Timed]]) -> list[Section]:
    """What ran and what did not, in the order in which a person reads it."""
    late = [replace(step, why="The audit was stopped before it was finished.") for step in plan.steps]
    sections = {step.name: not_run(step) for step in (*late, *plan.left_out)}
    sections |= {name: section for name, (section, _) in done.items()}
    order = list(settings.checks if settings.checks is not None else ORDER)
    return [sections[name] for name in sorted(sections, key=lambda n: order.index(n) if n in order else len(order))]


def _finish(section: Section, sources: Sources) -> Section:
    """The section with the ids of public taxonomies, and with commands that name the audit's own files."""
    findings = tuple(
        replace(
            finding,
            taxonomy=finding.taxonomy or classify(finding.id),
            command=sources.fill(finding.command),
            fix=sources.fill(finding.fix),
            remedy=sources.fill(finding.remedy),
        )
        for finding in section.findings
    )
    return replace(section, findings=findings)


def _headline(sections: Sequence[Section]) -> tuple[Measure, ...]:
    """Accuracy, then the main measures of the sections with the gravest findings: four, as many as fit on a line."""

    def gravity(section: Section) -> int:
        return min((RANK[finding.severity] for finding in section.findings), default=len(RANK))

    measured = [section for section in sections if section.measures]
    ordered = [*measured[:1], *sorted(measured[1:], key=gravity)]
    return tuple(section.measures[0] for section in ordered[:4])
