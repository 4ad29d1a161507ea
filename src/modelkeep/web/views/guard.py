"""The view Guard."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from modelkeep.web.pages import show

router = APIRouter()


@router.get("/guard")
def page(request: Request) -> HTMLResponse:
    """The page."""
    return show(request, "guard.html")
