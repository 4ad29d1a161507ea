"""Guard: the live view of a gateway, at its address."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from modelkeep.core.errors import ModelKeepError
from modelkeep.web.gateway import Overview, Watched, read_overview
from modelkeep.web.pages import show
from modelkeep.web.workspace import Workspace

router = APIRouter()


class Asked(BaseModel):
    """Which gateway to watch."""

    address: str = Field(max_length=500)
    key: str = Field(max_length=500)


@router.get("/guard")
def page(request: Request) -> HTMLResponse:
    """The gateway as it stands now, or the form that asks for its address."""
    workspace: Workspace = request.app.state.workspace
    watched = workspace.gateway
    overview: Overview | None = None
    why = ""
    if watched is not None:
        try:
            overview = read_overview(watched)
        except ModelKeepError as error:
            why = str(error)
    return show(request, "guard.html", watched=watched, overview=overview, why=why)


@router.post("/api/guard/watch")
def watch(request: Request, asked: Asked) -> dict[str, str]:
    """Watch the gateway at this address from now on, if it answers."""
    workspace: Workspace = request.app.state.workspace
    watched = Watched.of(asked.address, asked.key)
    overview = read_overview(watched)
    workspace.gateway = watched
    return {"address": watched.address, "model": overview.model}


@router.post("/api/guard/leave")
def leave(request: Request) -> dict[str, str]:
    """Watch it no more, and forget the key."""
    workspace: Workspace = request.app.state.workspace
    workspace.gateway = None
    return {}
