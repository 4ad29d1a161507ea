"""Studies: the commands that run, the reports that were written, and the studies of the ledger, as they go on."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, StreamingResponse

from modelkeep.study.ledger import Ledger
from modelkeep.study.record import FAILURES
from modelkeep.web.pages import show
from modelkeep.web.stream import watch
from modelkeep.web.workspace import Workspace

router = APIRouter()
_MOST_TRIALS = 200


@router.get("/studies")
def page(request: Request) -> HTMLResponse:
    """Jobs, reports and studies."""
    workspace: Workspace = request.app.state.workspace
    return show(request, "studies.html", runs=workspace.runs.pages(), ledger=str(workspace.ledger))


@router.get("/studies/{name:path}")
def study_page(request: Request, name: str) -> HTMLResponse:
    """The trials of one study."""
    workspace: Workspace = request.app.state.workspace
    with Ledger(workspace.ledger, create=False) as ledger:
        records = ledger.records(name)
    rows = [
        {
            "id": each.identity[:8],
            "state": each.state,
            "tries": each.attempts,
            "seconds": "" if each.seconds is None else f"{each.seconds:.2f}",
            "parameters": ", ".join(f"{key} {value}" for key, value in each.parameters.items()),
            "seed": each.seed,
            "brief": each.brief,
        }
        for each in records[:_MOST_TRIALS]
    ]
    return show(request, "study.html", name=name, rows=rows, count=len(records), ledger=str(workspace.ledger))


@router.get("/api/studies")
def studies(request: Request) -> list[dict[str, Any]]:
    """How many trials of each study are done, run, failed and are missing."""
    return _count(request.app.state.workspace)


@router.get("/api/studies/live")
def live(request: Request) -> StreamingResponse:
    """The same whenever something changed."""
    workspace: Workspace = request.app.state.workspace
    return watch(request, lambda: _count(workspace), every=1.0)


@router.get("/api/runs")
def runs(request: Request) -> list[dict[str, Any]]:
    """The reports, the newest first."""
    workspace: Workspace = request.app.state.workspace
    return [asdict(run) for run in workspace.runs.pages()]


def _count(workspace: Workspace) -> list[dict[str, Any]]:
    if not workspace.ledger.exists():
        return []
    with Ledger(workspace.ledger, create=False) as ledger:
        counts = {name: ledger.counts(name) for name in ledger.studies()}
    rows = []
    for name, states in counts.items():
        done, running, failed = states["done"], states["running"], sum(states[state] for state in FAILURES)
        total = states.total()
        rows.append(
            {
                "name": name,
                "done": done,
                "running": running,
                "failed": failed,
                "missing": total - done - running - failed,
            }
        )
    return rows[::-1]
