"""`modelkeep audit`: when it fails for CI, which settings it hands on, and what it prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.running import Run
from modelkeep import Data, Model
from modelkeep.audit import Audit, Finding, Section, Settings
from modelkeep.audit.findings import Severity
from modelkeep.core.results import measured


@pytest.fixture
def audits(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """In place of the checks, findings of the severities that `--slice` names; the settings of each audit."""
    seen: list[Settings] = []

    def run(model: Model, data: Data, settings: Settings, *, seed: int, name: str, **_: object) -> Audit:
        seen.append(settings)
        severities: Any = (settings.slice or "good").split(",")
        with measured(seed) as provenance:
            sections = tuple(Section("s", "l", findings=(_finding(severity),)) for severity in severities)
            return Audit(
                provenance=provenance(),
                model_name=name,
                data_name=data.name,
                description="",
                headline=(),
                sections=sections,
            )

    monkeypatch.setattr("modelkeep.audit.audit", run)
    return seen


def _finding(severity: Severity) -> Finding:
    return Finding(f"accuracy.{severity}", severity, f"A {severity} one", "Measured.", "Means.", "Do.")


@pytest.mark.parametrize(
    ("severities", "fail_on", "code"),
    [
        ("high", "high", 1),
        ("medium", "high", 0),
        ("high", "medium", 1),
        ("good,medium", "medium", 1),
        ("low,unclear,good", "medium", 3),
        ("high,unclear", "high", 1),
        ("low,good", "medium", 0),
        ("unclear", "never", 0),
        ("high,medium", "never", 0),
    ],
)
def test_it_fails_on_a_finding_as_severe_as_asked(
    modelkeep: Run, digits_model: Path, audits: list[Settings], severities: str, fail_on: str, code: int
) -> None:
    run = modelkeep("audit", digits_model, "--data", "digits", "--slice", severities, "--fail-on", fail_on)
    assert run.code == code, run.err


def test_the_options_are_the_settings(modelkeep: Run, digits_model: Path, audits: list[Settings]) -> None:
    options = ["--examples", "7", "--steps", "3", "--attack", "fgsm"]
    assert modelkeep("audit", digits_model, "--data", "digits", *options).code == 0
    assert audits == [Settings(examples=7, steps=3, attack="fgsm")]


def test_it_names_the_report_and_the_gravest_findings(
    modelkeep: Run, digits_model: Path, audits: list[Settings], tmp_path: Path
) -> None:
    run = modelkeep("audit", digits_model, "--data", "digits", "--slice", "good,low,high,medium")
    assert run.code == 0, run.err
    assert str(tmp_path / "modelkeep-out" / "report.html") in run.out
    places = [run.out.find(f"A {severity} one") for severity in ("high", "medium", "low")]
    assert places == sorted(places)
    assert places[0] > 0
    assert "A good one" not in run.out
    run = modelkeep("audit", digits_model, "--data", "digits", "--json")
    assert json.loads(run.out) == json.loads((tmp_path / "modelkeep-out" / "run.json").read_text())


def test_an_unknown_attack_is_named_with_its_nearest(modelkeep: Run, digits_model: Path) -> None:
    run = modelkeep("audit", digits_model, "--data", "digits", "--examples", "4", "--attack", "pdg")
    assert run.code == 2
    assert "There is no attack 'pdg'. Did you mean 'pgd'" in run.err


def test_a_policy_decides_the_gate(modelkeep: Run, digits_model: Path, audits: list[Settings], tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[ignore."accuracy.high"]\nreason = "Known."\nuntil = 2999-01-01\n')
    command = ["audit", digits_model, "--data", "digits", "--slice", "high", "--fail-on", "high", "--policy", policy]
    run = modelkeep(*command)
    assert run.code == 0, run.err
    assert "Do not ship" not in run.out
    policy.write_text('[ignore."accuracy.high"]\nreason = "Known."\nuntil = 2001-01-01\n')
    run = modelkeep(*command)
    assert run.code == 1
    assert "ended on 2001-01-01" in run.err
    policy.write_text("[threshold]\n")
    assert modelkeep(*command).code == 2


def test_against_a_baseline_what_is_new_fails(
    modelkeep: Run, digits_model: Path, audits: list[Settings], tmp_path: Path
) -> None:
    command = ["audit", digits_model, "--data", "digits", "--slice"]
    assert modelkeep(*command, "good", "--out", "last").code == 0
    against = ["--baseline", tmp_path / "last" / "run.json", "--fail-on", "worse"]
    run = modelkeep(*command, "good,high", *against)
    assert run.code == 1
    assert "Against the baseline: 1 new" in run.out
    assert modelkeep(*command, "good", *against).code == 0
    assert modelkeep(*command, "good", "--fail-on", "worse").code == 2


@pytest.mark.parametrize("budget", ["soon", "-5m", "0", "nan", "inf", ""])
def test_a_budget_is_a_time(modelkeep: Run, digits_model: Path, budget: str) -> None:
    run = modelkeep("audit", digits_model, "--data", "digits", f"--budget={budget}")
    assert run.code == 2
    assert "--budget must be a time such as 90s, 10m or 2h" in run.err
