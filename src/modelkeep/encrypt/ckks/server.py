"""Server: the service over HTTP, on this machine only unless told otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from modelkeep.core.errors import EncryptError, MissingExtra
from modelkeep.encrypt.access.control import AccessControl, GuardedApplication
from modelkeep.encrypt.ckks.service import Replayed, Service, UnknownSession
from modelkeep.encrypt.ckks.worker import WorkerDied

try:
    import uvicorn
    from fastapi import FastAPI, Request, Response
    from starlette.requests import ClientDisconnect
except ImportError as missing:
    raise MissingExtra("encrypt", "fastapi", "Serving a model for encrypted inputs") from missing

BINARY = "application/octet-stream"
ACTIONS = {"GET /plan": "ask", "POST /sessions": "ask", "POST /sessions/*": "ask"}
WAITING = 32  # requests that may be read or wait for the worker; more are told to come again
OPENING = 2  # the same for keys, which may have hundreds of megabytes each, and which anyone may send
STATUS: tuple[tuple[type[EncryptError], int], ...] = ((UnknownSession, 410), (Replayed, 409), (WorkerDied, 502))


class TooLarge(EncryptError):
    """A body has more bytes than any honest one."""


def make_app(service: Service) -> FastAPI:
    """The routes: `GET /plan`, `POST /sessions`, `POST /sessions/NAME`."""
    app = FastAPI(title="modelkeep encrypt", docs_url=None, redoc_url=None, openapi_url=None)
    asking, opening = asyncio.Semaphore(WAITING), asyncio.Semaphore(OPENING)

    async def handle(
        request: Request, places: asyncio.Semaphore, most: int, answer: Callable[[bytes], bytes]
    ) -> Response:
        if places.locked():
            return Response("The server is busy. Ask again in a moment.", 503, {"Retry-After": "1"})
        async with places:
            try:
                body = await _read_body(request, most)
                return Response(await asyncio.to_thread(answer, body), media_type=BINARY)
            except TooLarge as error:
                return Response(str(error), 413, {"Connection": "close"})
            except EncryptError as error:
                return Response(str(error), next((code for kind, code in STATUS if isinstance(error, kind)), 400))

    @app.get("/plan")
    async def plan() -> Response:
        return Response(service.plan.to_json(), media_type="application/json")

    @app.post("/sessions")
    async def open_session(request: Request) -> Response:
        return await handle(request, opening, service.most_key_bytes, service.open)

    @app.post("/sessions/{name}")
    async def answer(request: Request, name: str) -> Response:
        return await handle(request, asking, service.most_input_bytes, lambda body: service.answer(name, body))

    return app


async def _read_body(request: Request, most: int) -> bytes:
    """The body, of which never more than `most` bytes (and one chunk) are in memory."""
    told = request.headers.get("content-length", "")
    too_large = TooLarge(f"The body is larger than the {most:,} bytes that a request of this plan can have.")
    if told.isdigit() and int(told) > most:
        raise too_large
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > most:
                raise too_large
    except ClientDisconnect:
        raise EncryptError("The request ended before its body did.") from None
    return bytes(body)


def serve(
    service: Service,
    *,
    host: str = "127.0.0.1",
    port: int = 8443,
    ready: Callable[[], None],
    control: AccessControl | None = None,
) -> None:
    """Serve until Ctrl-C or SIGTERM; `ready` is called once the port is open.

    With a `control`, only those are answered whose key may `ask` by its policy; each request counts as one query.
    """

    class _Server(uvicorn.Server):
        async def startup(self, sockets: list[Any] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                ready()

        async def shutdown(self, sockets: list[Any] | None = None) -> None:
            await super().shutdown(sockets)
            if control is not None:
                await control.principals.close()

    app = make_app(service)
    served = app if control is None else GuardedApplication(app, control, ACTIONS)
    config = uvicorn.Config(served, host=host, port=port, log_level="warning", access_log=False)
    try:
        _Server(config).run()
    finally:
        service.close()
