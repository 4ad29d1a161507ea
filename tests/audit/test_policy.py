"""A policy changes what it names and says so; a typing error, an ended exception and a doubt are never a pass."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from audit.audits import make_audit, make_finding
from modelkeep import Estimate, Result
from modelkeep.audit import Audit
from modelkeep.audit.policy import Policy
from modelkeep.core.errors import InputError
from modelkeep.report.measure import Measure

TODAY = date(2026, 11, 18)
POLICY = """
[findings."robustness"]
severity = "medium"
[findings."robustness.attack-impaired"]
severity = "low"
[thresholds]
"accuracy" = { at_least = 0.9 }
[ignore."shortcuts.one-place-decides"]
reason = "It is the digit itself."
until = 2027-01-31
[ignore."membership"]
reason = "Public data."
until = 2026-01-31
"""


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    path = tmp_path / "policy.toml"
    path.write_text(POLICY, encoding="utf-8")
    return Policy.read(path)


def test_severities_change_and_say_by_which_rule(policy: Policy) -> None:
    audit = make_audit(
        make_finding("robustness.adversarial-examples", "high"),
        make_finding("robustness.attack-impaired", "medium"),
        make_finding("robustness.stands-against-pgd", "good"),
        make_finding("robustness.unclear", "unclear"),
        make_finding("accuracy.weak-class", "high"),
    )
    applied = policy.apply(audit, TODAY)
    assert {each.id: each.severity for each in applied.audit.findings if each.check != "policy"} == {
        "robustness.adversarial-examples": "medium",
        "robustness.attack-impaired": "low",
        "robustness.stands-against-pgd": "good",
        "robustness.unclear": "unclear",
        "accuracy.weak-class": "high",
    }
    assert [(each.finding, each.before, each.after) for each in applied.changes] == [
        ("robustness.adversarial-examples", "high", "medium"),
        ("robustness.attack-impaired", "medium", "low"),
    ]
    assert "'robustness.attack-impaired' of the policy" in applied.changes[1].rule
    stored = Result.from_json(applied.audit.to_json())
    assert isinstance(stored, Audit)
    assert stored.findings == applied.audit.findings


def test_an_ignored_finding_is_kept_with_its_reason_until_the_date(policy: Policy) -> None:
    audit = make_audit(
        make_finding("shortcuts.one-place-decides", "high"),
        make_finding("membership.leaks", "high"),
    )
    applied = policy.apply(audit, TODAY)
    found = {each.id: each for each in applied.audit.findings}
    kept = found["shortcuts.one-place-decides"]
    assert (kept.severity, kept.ignored) == ("low", True)
    assert kept.ruled is not None
    assert kept.ruled.before == "high"
    assert "until 2027-01-31" in kept.ruled.rule
    assert "the digit itself" in kept.ruled.rule
    assert (found["membership.leaks"].severity, found["membership.leaks"].ignored) == ("high", False)
    assert "The exception for 'membership' ended on 2026-01-31, and is not applied." in applied.notes
    after = policy.apply(audit, date(2027, 2, 1)).audit
    assert {each.severity for each in after.findings if each.check != "policy"} == {"high"}


def test_what_is_not_known_stays_unknown_when_it_is_ignored() -> None:
    policy = Policy.from_values({"ignore": {"accuracy": {"reason": "Few.", "until": date(2027, 1, 1)}}})
    finding = policy.apply(make_audit(make_finding("accuracy.unclear", "unclear")), TODAY).audit.findings[0]
    assert (finding.status, finding.ignored) == ("inconclusive", True)


@pytest.mark.parametrize(("right", "status"), [(99, "pass"), (50, "fail"), (91, "inconclusive"), (88, "inconclusive")])
def test_a_threshold_is_judged_by_the_interval(policy: Policy, right: int, status: str) -> None:
    measure = Measure("accuracy", Estimate.rate(right, 100))
    applied = policy.apply(make_audit(make_finding("accuracy.as-expected", "good"), measures=(measure,)), TODAY)
    (judged,) = [each for each in applied.audit.findings if each.id == "policy.accuracy"]
    assert judged.status == status
    again = policy.apply(applied.audit, TODAY).audit
    assert again.findings == applied.audit.findings, "applied twice is applied once"


def test_a_threshold_for_what_was_not_measured_is_no_pass(policy: Policy) -> None:
    measure = Measure("acuracy", Estimate.rate(99, 100))
    applied = policy.apply(make_audit(make_finding("accuracy.as-expected", "good"), measures=(measure,)), TODAY)
    (judged,) = [each for each in applied.audit.findings if each.check == "policy"]
    assert judged.status == "inconclusive"
    assert "Did you mean 'acuracy'?" in judged.measured


def test_a_threshold_may_name_a_finding() -> None:
    policy = Policy.from_values({"thresholds": {"membership.leaks": {"at_most": 0.6, "severity": "low"}}})
    audit = make_audit(make_finding("membership.leaks", "medium", "1" * 90 + "0" * 10))
    (judged,) = [each for each in policy.apply(audit, TODAY).audit.findings if each.check == "policy"]
    assert (judged.severity, judged.status) == ("low", "fail")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[finding]\n", "finding is not a key. Did you mean 'findings'"),
        ('[findings."robustness"]\nseverty = "low"\n', "Did you mean 'severity'"),
        ('[findings."robustness"]\nseverity = "good"\n', "it must be 'high', 'medium' or 'low'. Got 'good'"),
        ('[findings."robustnes"]\nseverity = "low"\n', "names no check. Did you mean 'robustness'"),
        ('[thresholds]\n"accuracy" = {}\n', "give at_least or at_most"),
        ('[thresholds]\n"accuracy" = {at_least = 0.9, at_most = 0.1}\n', "at_least must not be above at_most"),
        ('[thresholds]\n"accuracy" = {atleast = 0.9}\n', "Did you mean 'at_least'"),
        ('[ignore."accuracy"]\nreason = "Because."\n', "ignore.accuracy.until is missing"),
        ('[ignore."accuracy"]\nuntil = 2027-01-01\nreason = ""\n', "ignore.accuracy.reason"),
        ("[", "is not TOML"),
    ],
)
def test_a_wrong_policy_is_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        Policy.read(path)
    assert told in str(refused.value)
    assert "policy.toml" in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be read: No such file"):
        Policy.read(tmp_path / "none.toml")
