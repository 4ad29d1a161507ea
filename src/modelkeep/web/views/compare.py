"""Compare: two models on the same examples, and two audits finding by finding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from modelkeep.audit.comparison import Comparison, compare
from modelkeep.core.errors import InputError
from modelkeep.web.model_comparison import compare_models, require_same_examples
from modelkeep.web.pages import show
from modelkeep.web.workspace import Workspace

router = APIRouter()


class Other(BaseModel):
    """The model to compare with, on the data that are open."""

    model: str = Field(max_length=4000)
    options: str = Field("", max_length=4000)


@router.get("/compare")
def page(request: Request, before: str = "", now: str = "") -> HTMLResponse:
    """The page; with `before` and `now`, two audits."""
    workspace: Workspace = request.app.state.workspace
    compared: Comparison | None = None
    if before and now:
        compared = compare(workspace.runs.audit(before), workspace.runs.audit(now))
    audits = workspace.runs.audits()
    return show(request, "compare.html", audits=audits, before=before, now=now, compared=compared)


@router.post("/api/compare/open")
def open_other(request: Request, other: Other) -> dict[str, str]:
    """Open a second model on the same data."""
    workspace: Workspace = request.app.state.workspace
    opened = workspace.require_opened()
    if not other.model.strip():
        raise InputError("Name the model to compare with.")
    found = workspace.open(replace(opened.sources, model=other.model.strip(), options=other.options.strip()))
    require_same_examples(opened, found)
    return {"model": found.sources.model}


@router.get("/api/compare")
def models(request: Request, other: str, seed: int = 0) -> dict[str, Any]:
    """The open model beside another one that was opened on the same data."""
    workspace: Workspace = request.app.state.workspace
    opened = workspace.require_opened()
    found = workspace.find(other, opened.sources.data)
    if found is None:
        raise InputError(f"'{other}' is not open with '{opened.sources.data}'. Press Compare to open it.")
    return compare_models(opened, found, seed).tell()
