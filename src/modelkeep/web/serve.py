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
except ImportError as missing:
    raise MissingExtra("ui", "uvicorn", "modelkeep ui") from missing

HOST = "127.0.0.1"
GRACE = 1  # seconds that streams which are open may delay the end


def serve(workspace: Workspace, port: int, ready: Callable[[str], None]) -> None:
    """Serve until Ctrl-C; `ready` gets the address as soon as a browser may open it. Port 0 takes a free one."""
    token = secrets.token_urlsafe(32)
    listener = listen(port)
    config = uvicorn.Config(
        create_app(workspace, token),
        access_log=False,  # it would write the token
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=GRACE,
    )
    with listener:
        ready(f"http://{HOST}:{listener.getsockname()[1]}{ENTRANCE}?token={token}")
        uvicorn.Server(config).run(sockets=[listener])


def listen(port: int) -> socket.socket:
    """A socket at that port of loopback; 0 takes a free one."""
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        raise ModelKeepError(
            f"Port {port} cannot be used: {error.strerror}. Name another with --port, or --port 0 for a free one."
        ) from error
