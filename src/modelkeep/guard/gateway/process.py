"""The gateway's process: REST and gRPC on one event loop, from the first check to the last answer after SIGTERM."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from modelkeep.core.errors import GuardError, MissingExtra
from modelkeep.core.setting_files import require_private
from modelkeep.core.version import __version__
from modelkeep.guard.gateway.app import create_app
from modelkeep.guard.gateway.assembly import Plan, build_service
from modelkeep.guard.gateway.config import Config, open_configured_store
from modelkeep.guard.gateway.connection import Connection
from modelkeep.guard.gateway.dashboard import mount
from modelkeep.guard.gateway.grpc_service import create_server
from modelkeep.guard.gateway.metrics import CONTENT_TYPE
from modelkeep.guard.gateway.service import Service
from modelkeep.guard.store.store import Store

try:
    import grpc
    import uvicorn
    import uvloop
    from fastapi import FastAPI, Request, Response
except ImportError as missing:
    raise MissingExtra("guard", "uvicorn", "The gateway") from missing

_STOPS = (signal.SIGTERM, signal.SIGINT)


def serve(plan: Plan, ready: Callable[[Service], None]) -> None:
    """Answer until SIGTERM or SIGINT; `ready` is called once the first query would be answered.

    At a signal no new connection is taken, requests under way are finished (at most `drain_seconds`), and the audit log
    is written. A second signal ends the process at once: nothing acknowledged is lost by that.
    """
    config = plan.config
    check_tls(config)
    listener = _listener(config.server.host, config.server.port)  # taken before the work, given up if it fails
    try:
        store = open_configured_store(config)
        try:
            uvloop.run(_run(plan, store, listener, ready))
        finally:
            store.close()
    finally:
        listener.close()


async def _run(plan: Plan, store: Store, listener: socket.socket, ready: Callable[[Service], None]) -> None:
    config = plan.config
    service = await build_service(plan, store)
    app = create_app(service)
    _add_metrics(app, service)
    curve = config.dashboard.fidelity_curve
    mount(app, service, None if curve is None else config.at(curve))
    rest = _Rest(
        uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,  # the audit log is the journal
            server_header=False,
            ssl_certfile=config.server.tls_certificate and config.at(config.server.tls_certificate),
            ssl_keyfile=config.server.tls_key and config.at(config.server.tls_key),
            timeout_graceful_shutdown=max(1, round(config.server.drain_seconds)),
        )
    )
    rpc = _grpc(service, config)
    stopping = asyncio.Event()

    def stop() -> None:
        if stopping.is_set():
            os._exit(128 + signal.SIGTERM)
        stopping.set()

    loop = asyncio.get_running_loop()
    for one in _STOPS:
        loop.add_signal_handler(one, stop)
    service.journal.note("gateway", "start", model=service.model, epoch=plan.policy.epoch, version=__version__)
    await service.journal.flush()  # the store takes writes, or there is no start
    service.journal.start()
    answering = asyncio.create_task(rest.serve([listener]))
    if rpc is not None:
        await rpc.start()
    while not rest.started and not answering.done():
        await asyncio.sleep(0.01)
    gc.collect()
    gc.freeze()  # what lives as long as the process is not looked through again: no pauses for that
    ready(service)
    ended = asyncio.create_task(stopping.wait())
    await asyncio.wait({answering, ended}, return_when=asyncio.FIRST_COMPLETED)
    service.draining = True
    rest.should_exit = True
    if rpc is not None:
        await asyncio.gather(answering, rpc.stop(config.server.drain_seconds))
    else:
        await answering
    await service.principals.close()
    await service.journal.flush()  # what was answered comes before the end
    service.journal.note("gateway", "stop", model=service.model, epoch=plan.policy.epoch)
    await service.journal.close()
    await service.backend.close()


class _Rest(uvicorn.Server):
    """Uvicorn without its own signals: one handler stops REST and gRPC alike."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _add_metrics(app: FastAPI, service: Service) -> None:
    async def metrics(request: Request) -> Response:
        await service.principals.operator(request.headers.get("authorization"))
        return Response(service.metrics.render(), media_type=CONTENT_TYPE)

    app.get("/metrics", include_in_schema=False)(metrics)


def check_tls(config: Config) -> None:
    """Refuse certificates and keys that cannot be used, before anything is opened."""
    server = config.server
    if server.tls_certificate is None or server.tls_key is None:
        return
    certificate, key = config.at(server.tls_certificate), config.at(server.tls_key)
    require_private(key, "The TLS key")
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise GuardError(
            f"The TLS certificate {certificate} and key {key} cannot be used: {error.strerror or error}. They must be "
            "PEM files that belong together."
        ) from error


def _listener(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=2048)
    except OSError as error:
        raise _no_port(host, port, error.strerror or str(error)) from error


def _grpc(service: Service, config: Config) -> grpc.aio.Server | None:
    server = config.server
    if server.grpc_port is None:
        return None
    _listener(server.host, server.grpc_port).close()  # says why it cannot be had, which grpc does not
    rpc = create_server(service)
    address = f"[{server.host}]:{server.grpc_port}" if ":" in server.host else f"{server.host}:{server.grpc_port}"
    try:
        if server.tls_certificate is None or server.tls_key is None:
            rpc.add_insecure_port(address)
        else:
            pair = (config.at(server.tls_key).read_bytes(), config.at(server.tls_certificate).read_bytes())
            rpc.add_secure_port(address, grpc.ssl_server_credentials([pair]))
    except RuntimeError as error:
        raise _no_port(server.host, server.grpc_port, str(error)) from error
    return rpc


def _no_port(host: str, port: int, why: str) -> GuardError:
    return GuardError(f"Cannot listen on {host} port {port}: {why}. Choose another port, or stop what uses it.")
