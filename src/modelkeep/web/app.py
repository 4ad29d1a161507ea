"""App: the views behind the gate."""

from __future__ import annotations

import secrets
from importlib.resources import files

from modelkeep.core.errors import MissingExtra
from modelkeep.core.version import __version__
from modelkeep.web.problems import add_problem_handlers, describe_failure, problem_response
from modelkeep.web.rail import ROUTERS
from modelkeep.web.security import Gate
from modelkeep.web.workspace import Workspace

try:
    from fastapi import FastAPI, Request
    from fastapi.responses import FileResponse
    from fastapi.staticfiles import StaticFiles
    from starlette.types import ASGIApp, Receive, Scope, Send
except ImportError as missing:
    raise MissingExtra("ui", "fastapi", "modelkeep ui") from missing


def create_app(workspace: Workspace, token: str) -> FastAPI:
    """The application on a workspace; `token` lets one browser in."""
    app = FastAPI(title="ModelKeep", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.workspace = workspace
    app.state.csrf = secrets.token_urlsafe(32)
    for router in ROUTERS:
        app.include_router(router)

    @app.get("/static/page.css")
    def report_style() -> FileResponse:
        """The style sheet of the reports, which the application stands on."""
        return FileResponse(str(files("modelkeep.report") / "templates" / "page.css"), media_type="text/css")

    app.mount("/static", StaticFiles(packages=[("modelkeep.web", "static")]))

    add_problem_handlers(app)
    app.add_middleware(_Asked, workspace=workspace)
    app.add_middleware(Gate, token=token, csrf=app.state.csrf)  # the outermost
    return app


class _Asked:
    """Says which model a request is about: each tab has its own in its address."""

    def __init__(self, app: ASGIApp, workspace: Workspace) -> None:
        self._app = app
        self._workspace = workspace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            query = Request(scope).query_params
            self._workspace.ask(query.get("model", ""), query.get("data", ""))
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            if scope["type"] != "http":
                raise
            await problem_response(Request(scope), describe_failure(error))(scope, receive, send)
