"""Verdict: the one line of an audit that a manager reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from modelkeep.audit.findings import Finding

Level = Literal["high", "medium", "low", "unclear", "good"]


@dataclass(frozen=True)
class Verdict:
    """What follows from the findings. `level` is the gravest severity, as pages colour it."""

    level: Level
    line: str


def decide(findings: Sequence[Finding], *, stopped: bool = False) -> Verdict:
    """The verdict on findings, the most important first.

    What the owner's policy excepts does not count. One finding of severity high is enough for "Do not ship", one of
    medium for "Ship with care". Nothing
    green is said where nothing was looked at, or where a person stopped the audit.
    """
    findings = [finding for finding in findings if not finding.ignored]
    failed = [finding for finding in findings if finding.status == "fail"]
    grave = [finding for finding in failed if finding.severity == "high"]
    if grave:
        return Verdict("high", f"Do not ship: {_tell(grave, failed)}.{_tell_rest(findings, stopped)}")
    serious = [finding for finding in failed if finding.severity == "medium"]
    if serious:
        return Verdict("medium", f"Ship with care: {_tell(serious, failed)}.{_tell_rest(findings, stopped)}")
    if failed:  # nearly every model has something of little weight
        told = f"Nothing grave found that we looked for; {_tell(failed, failed)}."
        return Verdict("low", f"{told}{_tell_rest(findings, stopped)}")
    passed = [finding for finding in findings if finding.status == "pass"]
    if not passed:
        return Verdict("unclear", f"Nothing can be said.{_tell_rest(findings, stopped)}")
    level: Level = "unclear" if stopped else "good"
    return Verdict(level, f"Nothing found that we looked for.{_tell_rest(findings, stopped)}")


def _tell(named: Sequence[Finding], failed: Sequence[Finding]) -> str:
    """The first two by their titles, and how many more there are."""
    told = "; ".join(f"{finding.title[0].lower()}{finding.title[1:]}" for finding in named[:2])
    more = len(failed) - len(named[:2])
    return f"{told}; and {more} more" if more else told


def _tell_rest(findings: Sequence[Finding], stopped: bool) -> str:
    """What the verdict does not rest on: checks without an answer, and those that did not run."""
    open_ones = len([finding for finding in findings if finding.status == "inconclusive"])
    skipped = len([finding for finding in findings if finding.status == "not run"])
    told = []
    if open_ones:
        told.append(f"{open_ones} {'question is' if open_ones == 1 else 'questions are'} open")
    if skipped:
        told.append(f"{skipped} {'check was' if skipped == 1 else 'checks were'} not run")
    if stopped:
        told.append("the audit was stopped early")
    return f" ({'; '.join(told)}.)" if told else ""
