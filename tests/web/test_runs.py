"""Runs: what stands in the folder is found, shown and served, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modelkeep import Data, Model
from modelkeep.audit import Audit, Settings, audit, audit_page
from modelkeep.audit.sources import Sources
from modelkeep.core.errors import InputError
from modelkeep.study import Ledger, Trial, trial
from modelkeep.web.runs import Runs
from modelkeep.web.views.reports import SANDBOX
from modelkeep.web.workspace import Workspace
from web.conftest import Browser


@pytest.fixture(scope="module")
def audited(workspace: Workspace, browser: Browser) -> Audit:
    """A small audit of the open model, in the folder of runs; beside it another one of fewer examples."""
    opened = workspace.require_opened()
    return keep_audit(opened.model, opened.data, workspace.folder / "one")


def keep_audit(model: Model, data: Data, folder: Path, checks: tuple[str, ...] = ("accuracy", "leak")) -> Audit:
    settings = Settings(examples=20, steps=2, checks=checks)
    found = audit(model, data, settings, seed=0, name="digits-cnn", sources=Sources("digits-cnn", "digits"))
    audit_page(found).write(folder, "report.html", "run.json")
    return found


def test_an_audit_of_the_open_model_is_the_first_screen(browser: Browser, audited: Audit) -> None:
    page = browser.get("/").text
    assert audited.verdict.line.replace("'", "&#39;") in page
    assert str(audited.provenance.model) in page
    for finding in audited.findings:
        assert finding.skipped or f'id="{finding.id}"' in page
    assert "/reports/one/report.html" in page
    assert "one/run.json" in [run["audit"] for run in browser.get("/api/runs").json()]
    assert "one/report.html" in browser.get("/studies").text


def test_a_fix_is_shown_with_the_line_that_its_button_runs(browser: Browser, audited: Audit) -> None:
    page = browser.get("/").text
    fixable = [finding for finding in audited.findings if finding.fix and "TRAIN" not in finding.fix]
    assert page.count("data-run-verb") == len(fixable)
    for finding in fixable:
        assert f"modelkeep fix {finding.id} --run" in page


def test_a_report_is_served_as_it_is_in_a_sandbox(browser: Browser, audited: Audit, workspace: Workspace) -> None:
    answer = browser.get("/reports/one/report.html")
    assert answer.content == (workspace.folder / "one" / "report.html").read_bytes()
    assert answer.headers["Content-Security-Policy"] == SANDBOX
    assert "sandbox;" in SANDBOX
    assert "script" not in SANDBOX
    assert browser.get("/reports/one/run.json").headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "path",
    [
        "../secret.html",
        "%2e%2e/secret.html",
        "..%2fsecret.html",
        "one/../../secret.html",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "link.html",
        "one",
        "one/nothing.html",
        ".ui/jobs.sqlite3",
        ".hidden.html",
        "one/model.safetensors",
        "one/report.html%00.png",
    ],
)
def test_no_other_file_is_served(browser: Browser, audited: Audit, workspace: Workspace, path: str) -> None:
    outside = workspace.folder.parent / "secret.html"
    outside.write_text("<title>ModelKeep: CONFIDENTIAL</title>")
    (workspace.folder / ".hidden.html").write_text("CONFIDENTIAL")
    (workspace.folder / "one" / "model.safetensors").write_text("CONFIDENTIAL")
    link = workspace.folder / "link.html"
    if not link.is_symlink():
        os.symlink(outside, link)
    answer = browser.get(f"/reports/{path}")
    assert answer.status_code in (400, 404)
    assert "CONFIDENTIAL" not in answer.text
    assert "CONFIDENTIAL" not in browser.get("/studies").text


@trial("web/halve", version=1)
def halve(*, seed: int, n: int) -> float:
    """Half of it."""
    return n / 2


def test_studies_of_the_ledger_are_counted_and_listed(browser: Browser, workspace: Workspace) -> None:
    assert browser.get("/api/studies").json() == []
    trials = [Trial.of(halve, {"n": n}, 0) for n in (1, 2, 3)]
    with Ledger(workspace.ledger) as ledger:
        ledger.remember("<b>halves</b>", trials)
        attempt = ledger.claim(trials[0], "here")
        assert isinstance(attempt, int)
        ledger.fail(attempt, "failed", "<i>It broke.</i>", 1.25)
    (study,) = browser.get("/api/studies").json()
    assert study == {"name": "<b>halves</b>", "done": 0, "running": 0, "failed": 1, "missing": 2}
    page = browser.get("/studies/%3Cb%3Ehalves%3C%2Fb%3E").text
    assert "<b>halves" not in page
    assert "3 trials" in page
    assert "1.25" in page
    assert "&lt;i&gt;It broke." in page
    assert browser.get("/studies/none").status_code == 400


def test_a_hostile_title_stays_text(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    (tmp_path / "page.html").write_text("<title>ModelKeep: &lt;script&gt;alert(1)&lt;/script&gt;</title>")
    (tmp_path / "other.html").write_text("<title>Somebody else's page</title>")
    assert [run.title for run in runs.pages()] == ["<script>alert(1)</script>"]
    with pytest.raises(InputError, match="There is no report"):
        runs.audit("run.json")


def test_a_damaged_audit_is_a_sentence(browser: Browser, workspace: Workspace, audited: Audit) -> None:
    folder = workspace.folder / "broken"
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_text('{"kind": "audit", "schema": 99}')
    answer = browser.get("/", run="broken/run.json")
    assert answer.status_code == 400
    assert "schema 99" in answer.text
