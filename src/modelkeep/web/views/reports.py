"""Reports: the files of the runs, as they were written, in a sandbox without scripts."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse

from modelkeep.web.runs import SERVED
from modelkeep.web.workspace import Workspace

router = APIRouter()
# A report is a file that anybody may have written: it shows itself and can do nothing.
SANDBOX = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"


@router.get("/reports/{path:path}")
def report(request: Request, path: str) -> FileResponse:
    """One file of a run."""
    workspace: Workspace = request.app.state.workspace
    file = workspace.runs.find(path)
    return FileResponse(file, media_type=SERVED[file.suffix], headers={"Content-Security-Policy": SANDBOX})
