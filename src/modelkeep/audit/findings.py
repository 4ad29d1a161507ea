"""Finding and Section: what an audit says it saw."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import not_
from typing import Annotated, Literal, Self

import torch
from pydantic import Field

from modelkeep.core.data import Data
from modelkeep.report.explanations import Explanations
from modelkeep.report.measure import Measure
from modelkeep.report.picture import Picture

# "unclear" is for too few examples to support a claim; it is never shown as good.
Severity = Literal["high", "medium", "low", "unclear", "good"]
RANK: dict[str, int] = {"high": 0, "medium": 1, "low": 2, "unclear": 3, "good": 4}
Status = Literal["fail", "inconclusive", "not run", "pass"]


@dataclass(frozen=True)
class Outcomes:
    """Which of the examples came out well, so that two audits can be compared pair by pair.

    `examples` is the fingerprint of the examples that were looked at, in their order; `well` has a "1" for each that
    came out well and a "0" for the others.
    """

    examples: str
    well: str

    @classmethod
    def of(cls, data: Data, well: torch.Tensor) -> Self:
        """The outcomes of these examples; `well: (n,)` says which came out well."""
        return cls(data.fingerprint(), "".join("01"[each] for each in well.tolist()))


@dataclass(frozen=True)
class Ruled:
    """What a policy made of a finding: the severity that it had, the rule in words, and whether it is ignored."""

    before: Severity
    rule: str
    ignored: bool = False


@dataclass(frozen=True)
class Finding:
    """One thing that a person should know: what was measured, what it means, what to do.

    `value` is the measured number with its interval. `access` is what the attacker must see of the model, `queries`
    how many examples he asked it for in all. `command` and `python` repeat the measurement and `fix` is the command
    that mends it; there MODEL, DATA and TRAIN stand for what the audit was given, which fills them in. `taxonomy`
    holds ids of public taxonomies; the audit looks them up by the finding's id. `weight` orders findings of one
    severity. `partial` says what was not looked at: such a finding is never good. `ruled` is there where a policy
    changed it.
    """

    id: str
    severity: Severity
    title: str
    measured: str
    meaning: str
    remedy: str
    taxonomy: tuple[str, ...] = ()
    weight: float = 0.0
    value: Measure | None = None
    access: str = ""
    queries: int | None = None
    command: str = ""
    python: str = ""
    fix: str = ""
    partial: str = ""
    skipped: bool = False
    ruled: Annotated[Ruled | None, Field(exclude_if=not_)] = None
    outcomes: Annotated[Outcomes | None, Field(exclude_if=not_)] = field(default=None, repr=False)
    evidence: Annotated[tuple[Picture, ...], Field(exclude_if=not_)] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if self.partial and self.severity == "good":
            object.__setattr__(self, "severity", "unclear")

    @property
    def check(self) -> str:
        """The part of its id before the first point, which all findings of one kind share."""
        return self.id.partition(".")[0]

    @property
    def ignored(self) -> bool:
        """Whether a policy says that it holds nothing up."""
        return self.ruled is not None and self.ruled.ignored

    @property
    def status(self) -> Status:
        """Whether the check failed, passed, could not say, or did not run."""
        if self.skipped:
            return "not run"
        if self.severity == "unclear":
            return "inconclusive"
        return "pass" if self.severity == "good" else "fail"


@dataclass(frozen=True)
class Section:
    """One chapter of the report, by one check."""

    title: str
    lead: str
    measures: tuple[Measure, ...] = ()
    findings: tuple[Finding, ...] = ()
    pictures: Annotated[tuple[Picture, ...], Field(exclude_if=not_)] = field(default=(), repr=False)
    explanations: Explanations | None = None
    check: str = ""
