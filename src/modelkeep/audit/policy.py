"""Policy: what the owner of a model demands of an audit, from a file `policy.toml`.

[findings."robustness"]                     # a check, or the whole id of a finding
severity = "medium"

[thresholds]
"accuracy" = { at_least = 0.9 }             # the name of a measure, or the id of a finding with a value
"membership.leaks" = { at_most = 0.6, severity = "medium" }

[ignore."shortcuts.one-feature-decides"]
reason = "The feature is a laboratory value that is known before the answer."
until = 2027-03-31
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from modelkeep.audit.audit import Audit
from modelkeep.audit.findings import Finding, Ruled, Section, Severity
from modelkeep.core.errors import InputError, did_you_mean
from modelkeep.core.registry import declarations
from modelkeep.report.measure import Measure
from modelkeep.report.taxonomy import read_taxonomy

CHECK = "policy"


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FindingRule(_Table):
    """How grave a failed finding is to this owner."""

    severity: Literal["high", "medium", "low"]


class Threshold(_Table):
    """The range in which a measure must lie, and how grave it is where it does not."""

    at_least: Annotated[float | None, Field(allow_inf_nan=False)] = None
    at_most: Annotated[float | None, Field(allow_inf_nan=False)] = None
    severity: Literal["high", "medium", "low"] = "high"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError("give at_least or at_most")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError("at_least must not be above at_most")
        return self

    @property
    def words(self) -> str:
        """The range as a person reads it."""
        told = {"at least": self.at_least, "at most": self.at_most}
        return " and ".join(f"{word} {limit:g}" for word, limit in told.items() if limit is not None)


class Allowance(_Table):
    """A finding that the owner accepts until a date, and why."""

    reason: Annotated[str, Field(min_length=1)]
    until: date


class Policy(_Table):
    """The rules of one file. A whole id goes before the name of its check."""

    findings: Mapping[str, FindingRule] = {}
    thresholds: Mapping[str, Threshold] = {}
    ignore: Mapping[str, Allowance] = {}

    @classmethod
    def read(cls, path: str | Path) -> Policy:
        """The policy in a TOML file, or one error that names all that is wrong with it."""
        try:
            return cls.from_values(tomllib.loads(Path(path).read_text(encoding="utf-8")), str(path))
        except OSError as error:
            raise InputError(f"The policy {path} cannot be read: {error.strerror}.") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"The policy {path} is not TOML: {error}.") from error

    @classmethod
    def from_values(cls, values: Mapping[str, Any], where: str = "policy.toml") -> Policy:
        """The policy that TOML values state.

        >>> Policy.from_values({"findings": {"robustnes": {"severty": "low"}}})
        Traceback (most recent call last):
        modelkeep.core.errors.InputError: policy.toml has 2 errors:
          findings.robustnes.severty is not a key. Did you mean 'severity'? Allowed: severity.
          findings.robustnes.severity is missing.
        """
        try:
            policy = cls.model_validate(dict(values))
        except ValidationError as error:
            raise _refuse(where, sorted({_sentence(each) for each in error.errors()}, reverse=True)) from None
        if wrong := list(policy._unknown()):
            raise _refuse(where, wrong)
        return policy

    def _unknown(self) -> Iterator[str]:
        """The keys that name no check: typing errors, which would otherwise hold for nothing."""
        told = read_taxonomy()
        known = {*declarations("check"), *(key.partition(".")[0] for key in (*told["findings"], *told["without"]))}
        for table, keys in (("findings", self.findings), ("ignore", self.ignore)):
            for key in keys:
                check = key.partition(".")[0]
                if check not in known:
                    meant = did_you_mean(check, known)
                    yield f'{table}."{key}" names no check.{meant} There are: {", ".join(sorted(known))}.'

    def apply(self, audit: Audit, today: date | None = None) -> Applied:
        """The audit under this policy; `today` decides which exceptions have ended."""
        today = today if today is not None else date.today()
        valid = {key: each for key, each in self.ignore.items() if today <= each.until}
        changes: list[Change] = []
        used: set[str] = set()

        def rule(finding: Finding) -> Finding:
            changed = finding
            if (key := _key_for(finding, valid)) is not None and finding.status != "pass":
                used.add(f"ignore.{key}")
                changed = _ignore(finding, key, valid[key])
            elif (key := _key_for(finding, self.findings)) is not None and finding.status == "fail":
                used.add(f"findings.{key}")
                changed = _set_severity(finding, key, self.findings[key].severity)
            if changed.ruled is not None and changed is not finding:
                changes.append(Change(finding.id, finding.severity, changed.severity, changed.ruled.rule))
            return changed

        sections = [
            replace(section, findings=tuple(rule(finding) for finding in section.findings))
            for section in audit.sections
            if section.check != CHECK
        ]
        notes = tuple(self._notes(valid, used))
        judged = self._judge_thresholds(audit)
        if judged is not None:
            sections.append(replace(judged, lead=" ".join([judged.lead, *notes])))
        return Applied(replace(audit, sections=tuple(sections)), tuple(changes), notes)

    def _notes(self, valid: Mapping[str, Allowance], used: set[str]) -> Iterator[str]:
        for key, each in self.ignore.items():
            if key not in valid:
                yield f"The exception for '{key}' ended on {each.until}, and is not applied."
            elif f"ignore.{key}" not in used:
                yield f"The exception for '{key}' was not needed: there is no such finding."
        for key in self.findings:
            if f"findings.{key}" not in used:
                yield f"The severity for '{key}' was not used: no such finding failed."

    def _judge_thresholds(self, audit: Audit) -> Section | None:
        if not self.thresholds:
            return None
        measures = _measures(audit)
        found = tuple(_judge(name, limit, measures) for name, limit in self.thresholds.items())
        lead = "What the policy demands of the measures. Where an interval holds the threshold, it is undecided."
        named = tuple(measures[name] for name in self.thresholds if name in measures)
        return Section("Does it keep to the policy?", lead, named, found, check=CHECK)


@dataclass(frozen=True)
class Change:
    """A finding whose severity a rule changed, and the rule in words."""

    finding: str
    before: Severity
    after: Severity
    rule: str


@dataclass(frozen=True)
class Applied:
    """An audit under a policy: the audit with the severities of the policy, what changed, and rules without effect."""

    audit: Audit
    changes: tuple[Change, ...]
    notes: tuple[str, ...]


def _key_for(finding: Finding, rules: Mapping[str, object]) -> str | None:
    return next((key for key in (finding.id, finding.check) if key in rules), None)


def _ignore(finding: Finding, key: str, rule: Allowance) -> Finding:
    told = f"Ignored until {rule.until} by the rule '{key}' of the policy: {rule.reason}"
    # What is not known stays unknown; it holds nothing up.
    severity: Severity = "low" if finding.status == "fail" else finding.severity
    return replace(finding, severity=severity, ruled=Ruled(finding.severity, told, ignored=True))


def _set_severity(finding: Finding, key: str, severity: Severity) -> Finding:
    if severity == finding.severity:
        return finding
    told = f"Severity '{severity}' by the rule '{key}' of the policy; it was '{finding.severity}'."
    return replace(finding, severity=severity, ruled=Ruled(finding.severity, told))


def _measures(audit: Audit) -> dict[str, Measure]:
    """All measures by their names, and those of findings by the findings' ids."""
    found = [(each.name, each) for section in audit.sections for each in section.measures]
    values = [(finding, finding.value) for finding in audit.findings]
    found += [(name, value) for finding, value in values if value for name in (value.name, finding.id)]
    return dict(reversed(found))


def _judge(name: str, limit: Threshold, measures: Mapping[str, Measure]) -> Finding:
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if name not in measures:
        return Finding(
            id=f"{CHECK}.{plain}",
            severity="unclear",
            title=f"The policy's threshold for '{name}' could not be checked",
            measured=f"The audit has no measure '{name}'.{did_you_mean(name, measures)}",
            meaning=f"Whether it is {limit.words} is not known.",
            remedy="Run the check that measures it, or correct the name in the policy.",
        )
    share = measures[name].estimate
    kept = (limit.at_least is None or share.low >= limit.at_least) and (
        limit.at_most is None or share.high <= limit.at_most
    )
    broken = (limit.at_least is not None and share.high < limit.at_least) or (
        limit.at_most is not None and share.low > limit.at_most
    )
    severity: Severity = "unclear"
    title, meaning = f"'{name}' may be as the policy demands, or not", "The interval holds the threshold."
    if kept or broken:
        severity = "good" if kept else limit.severity
        title = f"'{name}' is {'as' if kept else 'not what'} the policy demands"
        meaning = f"The whole interval lies {'inside' if kept else 'outside'} the range."
    return Finding(
        id=f"{CHECK}.{plain}",
        severity=severity,
        title=title,
        measured=f"It is {share}; the policy demands {limit.words}.",
        meaning=meaning,
        remedy="Nothing." if kept else "Improve the model, look at more examples (--examples), or change the policy.",
        value=measures[name],
    )


def _refuse(where: str, wrong: list[str]) -> InputError:
    count = "an error" if len(wrong) == 1 else f"{len(wrong)} errors"
    return InputError("\n  ".join([f"{where} has {count}:", *wrong]))


_TABLES: Mapping[str, type[_Table]] = {"findings": FindingRule, "thresholds": Threshold, "ignore": Allowance}


def _sentence(error: Any) -> str:
    """One of pydantic's errors as a sentence that names the key and what is allowed."""
    place = [str(each) for each in error["loc"]]
    name = ".".join(place)
    if error["type"] == "extra_forbidden":
        allowed = list((Policy if len(place) == 1 else _TABLES[place[0]]).model_fields)
        return f"{name} is not a key.{did_you_mean(place[-1], allowed)} Allowed: {', '.join(allowed)}."
    if error["type"] == "missing":
        return f"{name} is missing."
    if error["type"] == "value_error":
        return f"{name}: {error['ctx']['error']}."
    return f"{name}: {error['msg'].replace('Input should', 'it must')}. Got {error['input']!r}."
