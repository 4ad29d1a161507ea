"""Costs: what a cut costs each party and the wire, measured on this machine and foretold for another link."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from time import perf_counter
from typing import Any, Literal

import torch
from torch.nn.functional import cross_entropy

from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.slices import Place
from modelkeep.govern.exposure.cut import Exposed
from modelkeep.govern.identity import Identity
from modelkeep.govern.wire.endpoint import Endpoint
from modelkeep.govern.wire.message import Message
from modelkeep.govern.wire.settings import Wire

_REPEATS = 5


@dataclass(frozen=True)
class Link:
    """A connection between two parties: bytes per second, and seconds that a message takes however small it is."""

    bandwidth: float
    latency: float
    source: Literal["loopback", "given"] = "given"

    def __post_init__(self) -> None:
        if not self.bandwidth > 0:
            raise bad_parameter("Link", "bandwidth", "a number of bytes per second above 0", self.bandwidth)
        if not self.latency >= 0:
            raise bad_parameter("Link", "latency", "a number of seconds of at least 0", self.latency)

    def __str__(self) -> str:
        measured = ", measured on loopback with mutual TLS" if self.source == "loopback" else ""
        return f"{self.bandwidth / 1e6:,.0f} MB/s, {1e3 * self.latency:.2f} ms{measured}"

    @classmethod
    def loopback(cls) -> Link:
        """This machine's own, through the parties' mutual TLS: a message of nothing, and one of 4 MiB."""
        with TemporaryDirectory() as folder:
            names = ("before", "behind")
            one, other = (Identity.at(Path(folder) / name, name) for name in names)
            members = {party.name: party.public_key for party in (one, other)}
            ends = [Endpoint(party, members, wire=Wire(), on_refused=lambda _: None) for party in (one, other)]
            listener = ends[1].listen("127.0.0.1:0")
            echo = Thread(target=_echo, args=(listener,), daemon=True)
            echo.start()
            try:
                connection = ends[0].connect("behind", listener.address, 10.0)
                try:
                    empty, full = Message("ping", {}), Message("ping", {}, (torch.zeros(2**20),))
                    quick, slow = (_round_trip(connection, message) for message in (empty, full))
                    connection.send(Message("end", {}))
                finally:
                    connection.close()
                    echo.join(10.0)
            finally:
                listener.close()
        return cls(2 * full.tensors[0].nbytes / max(slow - quick, 1e-9), quick / 2, "loopback")


@dataclass(frozen=True)
class Costs:
    """What a cut costs: bytes per example, parameters, and the seconds of a training step of `batch` examples."""

    bytes_forward: int
    bytes_backward: int
    parameters_before: int
    parameters_after: int
    seconds_before: float
    seconds_after: float
    batch: int

    @property
    def compute_before(self) -> float:
        """The share of the computing that the party before the cut does."""
        return self.seconds_before / (self.seconds_before + self.seconds_after)

    def overhead(self, link: Link) -> float:
        """A split step over the same step in one process: one message each way, nothing at the same time.

        >>> Costs(500, 500, 1, 1, 0.4, 0.6, batch=100).overhead(Link(1e6, latency=0.05))
        1.2
        """
        wire = 2 * link.latency + self.batch * (self.bytes_forward + self.bytes_backward) / link.bandwidth
        return 1 + wire / (self.seconds_before + self.seconds_after)


def measure_costs(model: Model, data: Data, cut: str | Place, *, batch_size: int = 64, seed: int = 0) -> Costs:
    """Take a few training steps of a copy of `model` in two pieces, and their least times: all else only adds."""
    if batch_size < 1:
        raise bad_parameter("measure_costs", "batch_size", "at least 1 example", batch_size)
    copied = Model.from_card(copy.deepcopy(model.module), model.card, model.device)
    rows = torch.arange(batch_size) % len(data)
    x, y = copied.check_inputs(data.x[rows]), data.y[rows].to(copied.device)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # of dropout
        for parameter in copied.module.parameters():
            parameter.requires_grad_(parameter.is_floating_point())
        exposed = Exposed.at(copied, cut)
        for piece in (exposed.before, exposed.after):
            piece.train(True)
        steps = [_step(exposed, x, y) for _ in range(_REPEATS)]
    forward, backward = steps[0].forward, steps[0].backward
    return Costs(
        bytes_forward=-(-forward // batch_size),
        bytes_backward=-(-backward // batch_size),
        parameters_before=sum(p.numel() for p in exposed.before.parameters.values()),
        parameters_after=sum(p.numel() for p in exposed.after.parameters.values()),
        seconds_before=min(step.seconds_before for step in steps),
        seconds_after=min(step.seconds_after for step in steps),
        batch=batch_size,
    )


@dataclass(frozen=True)
class _Step:
    seconds_before: float
    seconds_after: float
    forward: int
    backward: int


def _step(exposed: Exposed, x: torch.Tensor, y: torch.Tensor) -> _Step:
    """One training step in two pieces, without the wire between them."""
    begun = perf_counter()
    with torch.enable_grad():
        values = exposed.before([x], training=True)
        given = perf_counter()
        sent = [v for v in values if isinstance(v, torch.Tensor)]
        received: list[Any] = [
            v.detach().requires_grad_(v.requires_grad) if isinstance(v, torch.Tensor) else v for v in values
        ]
        (logits,) = exposed.after(received, training=True)
        cross_entropy(logits, y).backward()  # type: ignore[no-untyped-call]
    returned = perf_counter()
    pairs = [
        (v, r.grad)
        for v, r in zip(values, received, strict=True)
        if isinstance(v, torch.Tensor) and v.requires_grad and r.grad is not None
    ]
    torch.autograd.backward([v for v, _ in pairs], [g for _, g in pairs])
    ended = perf_counter()
    return _Step(
        given - begun + ended - returned,
        returned - given,
        sum(v.nbytes for v in sent),
        sum(g.nbytes for _, g in pairs),
    )


def _echo(listener: Any) -> None:
    connection = listener.accept(10.0)
    while (message := connection.receive(10.0)).kind != "end":
        connection.send(message)
    connection.close()


def _round_trip(connection: Any, message: Message) -> float:
    times = []
    for _ in range(4 * _REPEATS):
        begun = perf_counter()
        connection.send(message)
        connection.receive(10.0)
        times.append(perf_counter() - begun)
    return min(times)
