"""The verdict names the gravest findings, and is green only where something was looked at and nothing was found."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from modelkeep.audit.findings import RANK, Finding, Severity
from modelkeep.audit.verdict import decide


def _finding(severity: Severity, title: str = "It fails", *, skipped: bool = False) -> Finding:
    return Finding("a.b", severity, title, "M.", "m.", "r.", skipped=skipped)


def test_one_grave_finding_is_enough() -> None:
    found = [_finding("high", "A mark decides"), _finding("medium"), _finding("good"), _finding("unclear")]
    verdict = decide(found)
    assert verdict.level == "high"
    assert verdict.line == "Do not ship: a mark decides; and 1 more. (1 question is open.)"


def test_what_is_not_grave_ships_with_care() -> None:
    verdict = decide([_finding("medium", "One"), _finding("low", "Two"), _finding("low", "Three")])
    assert (verdict.level, verdict.line) == ("medium", "Ship with care: one; and 2 more.")


def test_what_nearly_every_model_has_is_not_grave() -> None:
    verdict = decide([_finding("low", "Two"), _finding("low", "Three"), _finding("unclear")])
    assert (verdict.level, verdict.line) == (
        "low",
        "Nothing grave found that we looked for; two; three. (1 question is open.)",
    )


def test_nothing_found_says_what_was_not_looked_at() -> None:
    skipped = _finding("unclear", skipped=True)
    assert decide([_finding("good"), skipped, skipped]).line == (
        "Nothing found that we looked for. (2 checks were not run.)"
    )
    assert decide([_finding("good")], stopped=True).level == "unclear"
    assert decide([skipped]).level == "unclear"
    assert decide([]).level == "unclear"


severities = st.sampled_from(list(RANK))


@given(st.lists(st.tuples(severities, st.booleans()), max_size=6), st.booleans())
def test_green_means_that_something_passed_and_nothing_failed(
    found: list[tuple[Severity, bool]], stopped: bool
) -> None:
    findings = [_finding(severity, skipped=skipped) for severity, skipped in found]
    status = {finding.status for finding in findings}
    assert (decide(findings, stopped=stopped).level == "good") == (
        "pass" in status and "fail" not in status and not stopped
    )
