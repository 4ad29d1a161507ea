"""Serve: the application on loopback, at an address that lets one browser in."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable

from modelkeep.core.errors import MissingExtra, ModelKeepError
from modelkeep.web.app import create_app
from modelkeep.web.security import ENTRANCE
from modelkeep.web.workspace import Workspace

try:
    import uvicorn
    from fastapi import FastAPI
except ImportError as missing:
    raise MissingExtra("ui", "uvicorn", "modelkeep ui") from missing

HOST = "127.0.0.1"
_GRACE = 3  # seconds that requests under way may delay the end


def serve(workspace: Workspace, port: int, ready: Callable[[str], None]) -> None:
    """Serve until Ctrl-C; `ready` gets the address as soon as a browser may open it. Port 0 takes a free one."""
    token = secrets.token_urlsafe(32)
    listener = listen(port)
    with listener:
        ready(f"http://{HOST}:{listener.getsockname()[1]}{ENTRANCE}?token={token}")
        make_server(create_app(workspace, token)).run(sockets=[listener])


def make_server(app: FastAPI) -> uvicorn.Server:
    """A server of the application. Its streams end with it, and do not hold it up."""
    config = uvicorn.Config(
        app,
        access_log=False,  # it would write the token
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
    )
    server = uvicorn.Server(config)
    app.state.ends = lambda: server.should_exit
    return server


def listen(port: int) -> socket.socket:
    """A socket at that port of loopback; 0 takes a free one."""
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        raise ModelKeepError(
            f"Port {port} cannot be used: {error.strerror}. Name another with --port, or --port 0 for a free one."
        ) from error
