"""Overview: what the last audit of the open model says: verdict, main measures, findings with their evidence."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from modelkeep.audit.audit import Audit
from modelkeep.audit.page import audit_page
from modelkeep.audit.remedies import find_remedy
from modelkeep.core.errors import InputError
from modelkeep.web.pages import show
from modelkeep.web.runs import Run
from modelkeep.web.workspace import Workspace

router = APIRouter()


@router.get("/")
def page(request: Request, run: str = "") -> HTMLResponse:
    """The audit of `run`; else the newest one of the open model."""
    workspace: Workspace = request.app.state.workspace
    audits = workspace.runs.audits()
    chosen = run or _newest_of_opened(workspace, audits)
    if not chosen:
        return show(request, "overview.html", audits=audits, audit=None)
    audit = workspace.runs.audit(chosen)
    known = next((each for each in audits if each.audit == chosen), None)
    return show(
        request,
        "overview.html",
        audits=audits,
        audit=audit,
        shown=audit_page(audit),
        run=chosen,
        report=known.path if known is not None else "",
        record=str(workspace.folder / chosen),
        fixes=_fixes(workspace, audit, chosen),
        is_opened=_is_of_opened(workspace, audit),
    )


def _newest_of_opened(workspace: Workspace, audits: list[Run]) -> str:
    return next((run.audit for run in audits if _is_of_opened(workspace, workspace.runs.audit(run.audit))), "")


def _is_of_opened(workspace: Workspace, audit: Audit) -> bool:
    opened = workspace.opened
    return opened is not None and opened.fingerprints == (audit.provenance.model, audit.provenance.data)


def _fixes(workspace: Workspace, audit: Audit, run: str) -> dict[str, dict[str, str]]:
    """What mends each finding that a command mends: the values of the form of `modelkeep fix`, and what it runs."""
    found = {}
    for finding in audit.findings:
        name = finding.id.replace(".", "-")
        out = workspace.folder / Path(run).parent / f"fixed-{name}"
        try:
            remedy = find_remedy(audit, finding, out)
        except InputError:
            continue
        values = {"finding": finding.id, "audited": str(workspace.folder / run), "out": str(out)}
        found[finding.id] = {**values, "runs": remedy.command}
    return found
