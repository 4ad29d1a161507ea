"""`modelkeep fix`: the remedy really runs, the same examples are audited again, and the original stays as it is."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

from cli.running import Run
from modelkeep.audit import Audit

FIX = "modelkeep harden {model} --data digits --radius 0.1 --method fast --epochs 2 --attack pgd --examples 60"


@pytest.fixture
def audited(modelkeep: Run, digits_model: Path, tmp_path: Path) -> Path:
    """An audit of two checks, whose finding names a remedy that takes a few seconds."""
    checks = ["--check", "accuracy", "--check", "robustness", "--examples", "60", "--steps", "10", "--attack", "pgd"]
    assert modelkeep("audit", digits_model, "--data", "digits", *checks).code == 0
    path = tmp_path / "modelkeep-out" / "run.json"
    told = json.loads(path.read_text())
    for section in told["sections"]:
        for finding in section["findings"]:
            finding["fix"] = FIX.format(model=digits_model) if finding["id"].startswith("robustness.") else ""
    path.write_text(json.dumps(told))
    return path


def test_the_mended_model_is_audited_on_the_same_examples(
    modelkeep: Run, audited: Path, digits_model: Path, tmp_path: Path
) -> None:
    before = sha256(digits_model.read_bytes()).hexdigest()
    audit = Audit.from_json(audited.read_text())
    name = next(finding.id for finding in audit.findings if finding.id.startswith("robustness."))
    run = modelkeep("fix", name, "--json")
    assert run.code == 0, run.err
    assert "modelkeep harden" in run.err
    told = json.loads(run.out)
    assert told["kind"] == "audit-comparison"
    after = Audit.from_json((tmp_path / "modelkeep-out" / "fixed" / "run.json").read_text())
    assert after.provenance.data == audit.provenance.data
    assert after.provenance.model != audit.provenance.model
    assert [section.check for section in after.sections] == ["accuracy", "robustness"]
    assert sha256(digits_model.read_bytes()).hexdigest() == before
    assert (tmp_path / "modelkeep-out" / "fixed" / "comparison.json").is_file()


def test_a_dry_run_says_the_command_and_does_nothing(modelkeep: Run, audited: Path, tmp_path: Path) -> None:
    audit = Audit.from_json(audited.read_text())
    name = next(finding.id for finding in audit.findings if finding.id.startswith("robustness."))
    run = modelkeep("fix", name, "--dry-run")
    assert run.code == 0
    assert "--method fast" in run.err
    assert not (tmp_path / "modelkeep-out" / "fixed").exists()


def test_without_an_audit_or_a_remedy_it_says_what_to_do(modelkeep: Run, audited: Path) -> None:
    run = modelkeep("fix", "robustness", "--run", "nowhere/run.json")
    assert run.code == 2
    assert "There is no audit at 'nowhere/run.json'" in run.err
    name = next(f.id for f in Audit.from_json(audited.read_text()).findings if f.id.startswith("accuracy."))
    run = modelkeep("fix", name)
    assert run.code == 2
    assert f"No command mends '{name}'" in run.err
