"""Comparison: what changed from a baseline's audit to this one, judged by tests and not by eye.

Findings are paired by their ids, or by the name of what they measured. Where both know how each example came out, and
looked at the same examples, McNemar's exact test is made on the examples that came out differently. Where only shares
with intervals are known, the difference of two independent shares is tested by their intervals (Newcombe1998). The
p-values are corrected for the number of findings (Holm1979).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from modelkeep.audit.audit import Audit
from modelkeep.audit.findings import RANK, Finding, Severity, Status
from modelkeep.core.results import Estimate, Result
from modelkeep.explain.meaning.concept_sensitivity import holm

# "changed" is for a value of which is not known whether more is better; "unclear" is never a pass.
Change = Literal["new", "worse", "changed", "unclear", "better", "gone", "same"]
ORDER: tuple[Change, ...] = ("new", "worse", "changed", "unclear", "better", "gone", "same")
LEVEL = 0.05


@dataclass(frozen=True)
class ChangeTest:
    """A test of one finding against the baseline's.

    `gain` is how much larger the share of examples that came out well is now. A test that is not `directed` only knows
    the measured value, of which more may be better or worse. `adjusted` is the p-value after Holm's correction.
    """

    method: str
    gain: float
    p_value: float
    adjusted: float
    n: int
    lost: int | None = None
    won: int | None = None
    directed: bool = True

    @property
    def supported(self) -> bool:
        """Whether chance alone would hardly make such a difference."""
        return self.adjusted < LEVEL

    def __str__(self) -> str:
        counts = "" if self.lost is None else f"; {self.lost} examples lost, {self.won} won"
        return f"{100 * self.gain:+.1f} points{counts}, p = {self.adjusted:.2g} ({self.method})"


@dataclass(frozen=True)
class Compared:
    """One finding, before and now. `why` says by what it was judged."""

    id: str
    title: str
    change: Change
    why: str
    before: Severity | None
    now: Severity | None
    status_before: Status | None
    status_now: Status | None
    test: ChangeTest | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison(Result, kind="audit-comparison"):
    """Each finding against the baseline, the gravest change first. `notes` say what else differs between the audits."""

    model_name: str
    baseline_name: str
    baseline_date: str
    findings: tuple[Compared, ...]
    notes: tuple[str, ...] = ()

    def of(self, *changes: Change) -> tuple[Compared, ...]:
        """The findings with one of these changes."""
        return tuple(each for each in self.findings if each.change in changes)

    @property
    def verdict(self) -> str:
        """How many findings changed, in one line."""
        counts = {change: len(self.of(change)) for change in ORDER if change != "same"}
        told = ", ".join(f"{count} {change}" for change, count in counts.items() if count)
        return f"Against the baseline: {told or 'no change that the tests support'}."

    def rows(self) -> list[tuple[str, str]]:
        return [(each.change, f"{each.title}. {each.why}") for each in self.findings]


def compare(baseline: Audit, now: Audit) -> Comparison:
    """What is new, worse, better and gone in `now`."""
    pairs = list(_pair(baseline.findings, now.findings))
    tests = [_test(before, after) for before, after in pairs]
    adjusted = iter(holm([test.p_value for test in tests if test is not None]))
    corrected = [None if test is None else _adjust(test, next(adjusted)) for test in tests]
    rows = [_judge(before, after, test, now) for (before, after), test in zip(pairs, corrected, strict=True)]
    ranked = sorted(rows, key=lambda row: (ORDER.index(row.change), RANK[row.now or row.before or "good"], row.id))
    return Comparison(
        provenance=now.provenance,
        model_name=now.model_name,
        baseline_name=baseline.model_name,
        baseline_date=baseline.date,
        findings=tuple(ranked),
        notes=tuple(_notes(baseline, now)),
    )


def _pair(before: Sequence[Finding], now: Sequence[Finding]) -> Iterator[tuple[Finding | None, Finding | None]]:
    """The findings of both, each with its partner: of the same id, else of the same check and measure."""
    left = list(before)
    partners: dict[int, Finding] = {}
    for key in (lambda each: each.id, _quantity):
        for place, finding in enumerate(now):
            match = next((each for each in left if key(each) is not None and key(each) == key(finding)), None)
            if place not in partners and match is not None:
                partners[place] = match
                left.remove(match)
    yield from ((partners.get(place), finding) for place, finding in enumerate(now))
    yield from ((finding, None) for finding in left)


def _quantity(finding: Finding) -> tuple[str, str] | None:
    return None if finding.value is None else (finding.check, finding.value.name)


def _test(before: Finding | None, now: Finding | None) -> ChangeTest | None:
    if before is None or now is None:
        return None
    if before.outcomes is not None and now.outcomes is not None:
        first, second = before.outcomes, now.outcomes
        if first.examples == second.examples and len(first.well) == len(second.well):
            return mcnemar(first.well, second.well)
        shares = [Estimate.rate(well.count("1"), len(well)) for well in (first.well, second.well) if well]
        return _two_samples(shares[0], shares[1], directed=True) if len(shares) == 2 else None
    if before.value is None or now.value is None or before.value.name != now.value.name:
        return None
    return _two_samples(before.value.estimate, now.value.estimate, directed=False)


def mcnemar(before: str, now: str) -> ChangeTest:
    """McNemar's exact test on the examples of which "1" came out well: are more lost than won, or fewer?

    >>> mcnemar("1111111100", "0000000000").p_value
    0.0078125
    """
    from scipy.stats import binomtest

    pairs = list(zip(before, now, strict=True))
    lost, won = pairs.count(("1", "0")), pairs.count(("0", "1"))
    p_value = float(binomtest(won, lost + won).pvalue) if lost + won else 1.0
    gain = (won - lost) / len(pairs) if pairs else 0.0
    return ChangeTest("McNemar's exact test on the same examples", gain, p_value, p_value, len(pairs), lost, won)


def _two_samples(before: Estimate, now: Estimate, *, directed: bool) -> ChangeTest | None:
    """The difference of two independent shares by the sides of their intervals that face each other (Newcombe1998)."""
    from scipy.stats import norm

    gain = now.value - before.value
    upper, lower = (now, before) if gain > 0 else (before, now)
    sides = (
        (upper.value - upper.low) / norm.ppf((1 + upper.level) / 2),
        (lower.high - lower.value) / norm.ppf((1 + lower.level) / 2),
    )
    error = math.hypot(*map(float, sides))
    if not error > 0:  # no width, such as of one sample: nothing can be said about chance
        return None
    p_value = float(2 * norm.sf(abs(gain) / error))
    method = "two separate samples, by their intervals: not the same examples"
    return ChangeTest(method, gain, p_value, p_value, min(before.n, now.n), directed=directed)


def _adjust(test: ChangeTest, adjusted: float) -> ChangeTest:
    return replace(test, adjusted=adjusted)


def _judge(before: Finding | None, now: Finding | None, test: ChangeTest | None, audit: Audit) -> Compared:
    named = now if now is not None and (now.status != "pass" or before is None) else before
    shown = named if named is not None else now
    assert shown is not None, "a pair has at least one finding"
    change, why = _decide(before, now, test, audit)
    return Compared(
        id=shown.id,
        title=shown.title,
        change=change,
        why=why if test is None else f"{why} {test}.",
        before=None if before is None else _severity(before),
        now=None if now is None else _severity(now),
        status_before=None if before is None else before.status,
        status_now=None if now is None else now.status,
        test=test,
    )


def _severity(finding: Finding) -> Severity:
    """The severity that the check itself gave, so that a policy is no change of the model."""
    return finding.severity if finding.ruled is None else finding.ruled.before


def _decide(before: Finding | None, now: Finding | None, test: ChangeTest | None, audit: Audit) -> tuple[Change, str]:
    was = "absent" if before is None else before.status
    if now is None:
        return _decide_absent(before, audit)
    if now.status == "fail" and was != "fail":
        told = "The baseline could not say." if was in ("inconclusive", "not run") else "The baseline did not find it."
        return "new", f"{told}{_doubt(test)}"
    if was == "fail" and now.status == "pass":
        return "gone", f"It passes now.{_doubt(test)}"
    if was == "fail" and now.status != "fail":
        return "unclear", f"It failed in the baseline, and now the check is {_told(now.status)}."
    if test is not None and test.supported:
        if not test.directed:
            return "changed", "The value moved; whether that is better is for you to say."
        return (
            ("better", "It came out well more often.") if test.gain > 0 else ("worse", "It came out well less often.")
        )
    if before is None or was != now.status:
        return "same", f"It is {_told(now.status)}; in the baseline it was {_told(was)}."
    difference = RANK[_severity(now)] - RANK[_severity(before)]
    if difference == 0:
        return "same", "Nothing that the tests support." if test else "The same severity; nothing to test."
    severities = f"Its severity was {_severity(before)} and is {_severity(now)}."
    if test is not None:
        return "unclear", f"{severities} The difference can be chance."
    return ("worse" if difference < 0 else "better"), f"{severities} Judged by that alone: there is nothing to test."


def _decide_absent(before: Finding | None, audit: Audit) -> tuple[Change, str]:
    """A finding of the baseline that is not there now: gone only if its check ran and could say."""
    if before is None or before.status != "fail":
        return "same", "It did not fail in the baseline."
    others = [finding for finding in audit.findings if finding.check == before.check]
    if not others or any(finding.status in ("inconclusive", "not run") for finding in others):
        return "unclear", "Its check did not run to a clear end now."
    return "gone", "Its check ran and did not find it; nothing to test."


def _doubt(test: ChangeTest | None) -> str:
    if test is None:
        return " There is nothing to test it by."
    return "" if test.supported else " The difference can be chance."


def _told(status: str) -> str:
    return {"fail": "failed", "pass": "passed"}.get(status, status)


def _notes(baseline: Audit, now: Audit) -> Iterator[str]:
    before, after = baseline.provenance, now.provenance
    if before.data != after.data:
        first, second = f"'{baseline.data_name}' ({_short(before.data)})", f"'{now.data_name}' ({_short(after.data)})"
        yield f"Other data: the baseline used {first}, this audit {second}."
    if before.model == after.model:
        yield "The model is the same as in the baseline."
    if before.seed != after.seed:
        yield f"Another seed: {before.seed} in the baseline, {after.seed} now."
    if before.settings != after.settings:
        yield "Other settings of the audit: the same names may stand for other measurements."
    if before.version != after.version:
        yield f"Another version of modelkeep: {before.version} in the baseline, {after.version} now."


def _short(fingerprint: str | None) -> str:
    return fingerprint[:8] if fingerprint else "unknown"
