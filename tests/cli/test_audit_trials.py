"""Checks that run in other processes find what they find here, and the audit takes them from the journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelkeep.audit import Settings, audit
from modelkeep.audit.audit import plan_audit
from modelkeep.audit.journal import Journal
from modelkeep.audit.sources import Sources
from modelkeep.cli.audit_trials import open_sources, run_check, run_elsewhere
from modelkeep.core.errors import InputError
from modelkeep.study.local import Local

SETTINGS = Settings(checks=("accuracy", "amplification"), examples=20)


def test_processes_find_what_the_audit_finds(digits_model: Path, tmp_path: Path) -> None:
    sources = Sources(str(digits_model), "digits", "digits")
    model, data, train = open_sources(sources)
    here = audit(model, data, SETTINGS, train=train, seed=3, sources=sources)
    plan = plan_audit(model, data, SETTINGS, train=train, sources=sources)
    journal = Journal(tmp_path / "unfinished")
    run_elsewhere(plan, model, data, SETTINGS, sources, train=train, journal=journal, engine=Local(2), seed=3)
    kept = sorted(path.name.partition("-")[0] for path in (tmp_path / "unfinished").glob("*.json"))
    assert kept == ["accuracy", "amplification"]
    found = audit(model, data, SETTINGS, train=train, seed=3, sources=sources, journal=journal, plan=plan)
    assert found.findings == here.findings


def test_a_model_that_changed_meanwhile_is_refused(digits_model: Path) -> None:
    sources = {"model": str(digits_model), "data": "digits", "train": "", "options": ""}
    with pytest.raises(InputError, match="changed while it was audited"):
        run_check(seed=0, check="accuracy", depth="", settings={}, sources=sources, model="another", data="another")
