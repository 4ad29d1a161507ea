"""Opening a model: by the names, paths and options of the command line, or the digits that come with the package."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from modelkeep.audit.sources import Sources
from modelkeep.core.errors import InputError
from modelkeep.core.version import __version__
from modelkeep.web.workspace import Opened, Workspace

router = APIRouter()


class Asked(BaseModel):
    """Which model to open, as a command line would say it."""

    model: str = Field(max_length=4000)
    data: str = Field(max_length=4000)
    train: str = Field("", max_length=4000)
    options: str = Field("", max_length=4000)


@router.post("/api/open")
def open_model(request: Request, asked: Asked) -> dict[str, Any]:
    """Open a model with its data, and say what it is."""
    if not asked.model or not asked.data:
        raise InputError("Name a model and its data, such as digits-cnn and digits.")
    workspace: Workspace = request.app.state.workspace
    return describe(workspace.open(Sources(asked.model, asked.data, asked.train, asked.options)))


@router.get("/api/opened")
def opened(request: Request) -> dict[str, Any]:
    """What is open in this tab, with what it is known by."""
    workspace: Workspace = request.app.state.workspace
    found = workspace.require_opened()
    model, data = found.fingerprints
    return {**describe(found), "model_hash": model, "data_hash": data, "version": __version__}


def describe(opened: Opened) -> dict[str, Any]:
    """What the pages show of an open model."""
    model, data = opened.model, opened.data
    return {
        "name": opened.name,
        "model": opened.sources.model,
        "data": opened.sources.data,
        "classes": list(model.classes),
        "examples": len(data),
        "shape": list(model.input_shape),
    }
