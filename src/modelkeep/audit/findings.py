"""Finding and Section: what an audit says it saw."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from modelkeep.report.explanations import Explanations
from modelkeep.report.measure import Measure
from modelkeep.report.picture import Picture

# "unclear" is for too few examples to support a claim; it is never shown as good.
Severity = Literal["high", "medium", "low", "unclear", "good"]
RANK: dict[str, int] = {"high": 0, "medium": 1, "low": 2, "unclear": 3, "good": 4}


@dataclass(frozen=True)
class Finding:
    """One thing that a person should know: what was measured, what it means, what to do.

    `weight` orders findings of one severity; `taxonomy` holds ids of NIST AI 100-2, MITRE ATLAS and OWASP ML.
    """

    id: str
    severity: Severity
    title: str
    measured: str
    meaning: str
    remedy: str
    taxonomy: tuple[str, ...] = ()
    weight: float = 0.0


@dataclass(frozen=True)
class Section:
    """One chapter of the report. Pictures are drawn for the page and left out of JSON."""

    title: str
    lead: str
    measures: tuple[Measure, ...] = ()
    findings: tuple[Finding, ...] = ()
    pictures: Annotated[tuple[Picture, ...], Field(exclude=True)] = field(default=(), repr=False)
    explanations: Explanations | None = None
