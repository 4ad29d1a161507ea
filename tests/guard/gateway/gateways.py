"""Gateways to test: a small network behind a guard, on a real port of 127.0.0.1 or in this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import uvicorn
from torch import nn

from modelkeep import Model
from modelkeep.guard.defence import Defence
from modelkeep.guard.defences.modelguard_s import ModelGuardS
from modelkeep.guard.gate import Gate
from modelkeep.guard.gateway.app import create_app
from modelkeep.guard.gateway.backend import Backend, LocalBackend
from modelkeep.guard.gateway.connection import Connection
from modelkeep.guard.gateway.grpc_service import create_server
from modelkeep.guard.gateway.journal import Journal
from modelkeep.guard.gateway.metrics import Metrics
from modelkeep.guard.gateway.principals import Principals
from modelkeep.guard.gateway.service import Service
from modelkeep.guard.policy import Policy
from modelkeep.guard.protocol.tensors import TensorSpec
from modelkeep.guard.store.sqlite import SqliteStore

SHAPE = (2, 3)
CLASSES = 4


def small_model() -> Model:
    """An untrained network for 2×3 inputs and four classes."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, CLASSES))
    return Model(module, input_shape=SHAPE, classes=CLASSES)


def small_service(
    folder: Path, backend: Backend | None = None, defence: Defence | None = None, *, open: bool = True
) -> Service:
    """A service with an embedded store in `folder`; open to everybody unless told otherwise."""
    store = SqliteStore(folder / "guard.db")
    policy = Policy(defence or ModelGuardS(1.0), "small", CLASSES)
    gate = Gate(policy, store)
    return Service(
        model="small",
        version="1",
        input=TensorSpec("input", "FP32", SHAPE),
        output=TensorSpec("probabilities", "FP32", (CLASSES,)),
        backend=backend or LocalBackend(small_model()),
        gate=gate,
        principals=Principals(store, open=open),
        metrics=Metrics(epoch=policy.epoch, model="small", gate=gate),
        journal=Journal(store),
    )


class Running:
    """A service that listens, over REST and gRPC."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.rest = 0
        self.grpc = 0
        self._started = threading.Event()
        self._config = uvicorn.Config(
            create_app(service), http=Connection, ws="none", host="127.0.0.1", port=0, log_level="error"
        )
        self._server = uvicorn.Server(self._config)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    @property
    def url(self) -> str:
        """Where REST is spoken."""
        return f"http://127.0.0.1:{self.rest}"

    async def _serve(self) -> None:
        grpc_server = create_server(self.service)
        self.grpc = grpc_server.add_insecure_port("127.0.0.1:0")
        await grpc_server.start()
        rest = asyncio.create_task(self._server.serve())
        while not self._server.started:
            await asyncio.sleep(0.01)
        self.rest = self._server.servers[0].sockets[0].getsockname()[1]
        self._started.set()
        await rest
        await grpc_server.stop(1)
        await self.service.principals.close()
        await self.service.backend.close()

    def start(self) -> None:
        """Listen."""
        self._thread.start()
        assert self._started.wait(30)

    def stop(self) -> None:
        """End."""
        self._server.should_exit = True
        self._thread.join(30)
        self.service.gate.store.close()


@contextmanager
def running(service: Service) -> Iterator[Running]:
    """The service on ports of its own, for the time of a test."""
    gateway = Running(service)
    gateway.start()
    try:
        yield gateway
    finally:
        gateway.stop()
