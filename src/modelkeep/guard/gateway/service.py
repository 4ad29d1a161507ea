"""Service: the one path from a request to the answer that leaves, which REST and gRPC share.

It fails closed. Exactly one tensor leaves, the guarded probabilities; what else a client asks for is refused, and what
else the model says (tensors, parameters, headers, texts of errors) stays here.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from modelkeep.core.errors import InputError, StoreUnavailable
from modelkeep.core.version import __version__
from modelkeep.guard.gate import Gate
from modelkeep.guard.gateway.backend import Backend, NotFinite
from modelkeep.guard.gateway.journal import Journal
from modelkeep.guard.gateway.metrics import Metrics
from modelkeep.guard.gateway.principals import Principals
from modelkeep.guard.gateway.query_monitor import QueryMonitor
from modelkeep.guard.gateway.traffic import Traffic
from modelkeep.guard.grid import Predictions, Units, confidences, distortion
from modelkeep.guard.protocol.messages import InferenceRequest, InferenceResponse, Tensor
from modelkeep.guard.protocol.tensors import DTYPES, Array, TensorSpec, canonical, query_hashes
from modelkeep.guard.refusals import BadUpstream, Malformed, NotFound, Refusal, TooLarge, Unavailable

log = logging.getLogger(__name__)
_ORDINARY = 1e6  # of inputs beyond this in size an overflow is the client's doing: no data that are trained on reach it


@dataclass(eq=False)
class Service:
    """One guarded model and everything that an answer needs. `most_rows` and `most_bytes` bound one request.

    Health and metadata are open to all: they say no more than what the interface of the model is.
    """

    model: str
    version: str
    input: TensorSpec
    output: TensorSpec
    backend: Backend
    gate: Gate
    principals: Principals
    metrics: Metrics
    journal: Journal
    monitor: QueryMonitor | None = None
    most_rows: int = 1024
    most_bytes: int = 1 << 24
    most_json: int = 1 << 22  # of which JSON: while it is read, nothing else is
    draining: bool = False  # set before the end: not ready for new clients, but still answering
    traffic: Traffic = field(default_factory=Traffic)

    def __post_init__(self) -> None:
        # The first call compiles the guard's loops, for seconds; no client should wait for that. Nothing is kept of it.
        classes = self.gate.policy.classes
        x = np.zeros((1, *self.input.shape), DTYPES[self.input.datatype])
        self.gate.quick(np.full((1, classes), 1 / classes), query_hashes(x), torch.from_numpy(x))

    async def infer(
        self, authorization: str | None, read: Callable[[], Awaitable[InferenceRequest]]
    ) -> InferenceResponse:
        """Answer, or raise a `Refusal`. The request is read only after its sender was admitted."""
        name, rows = "nobody", 0
        start = time.perf_counter()
        try:
            principal = await self.principals.admit(authorization)
            name = principal.name
            request = await read()
            x = self._read_rows(request)
            rows = len(x)
            await self.principals.spend(principal, rows)
            predictions, answers = await self._guard(x)
        except Refusal as refusal:
            self._count_refusal(name, rows, refusal)
            raise
        except Exception as error:
            log.exception("An inference failed in an unforeseen way.")
            failure = Refusal("The gateway failed to answer this request; its log says why.")
            self._count_refusal(name, rows, failure)
            raise failure from error
        seconds = time.perf_counter() - start
        self.metrics.count_answer(rows, distortion(answers, predictions.units), seconds)
        self.traffic.count_answer(name, rows, seconds)
        self.journal.count(name, "answered", rows)
        if self.monitor is not None:
            try:
                self.monitor.watch(name, x, predictions, answers)
            except Exception:
                log.exception("The query monitor failed; the answer stands.")
        output = Tensor(self.output.name, confidences(answers))
        return InferenceResponse(self.model, self.version, request.id, output, request.binary)

    def require(self, model: str, version: str = "") -> None:
        """Refuse any model but ours."""
        if model != self.model or version not in ("", self.version):
            raise NotFound("There is no such model or version here.")

    async def ready(self) -> bool:
        """Whether a query would be answered now."""
        return not self.draining and await self.backend.ready()

    def server_metadata(self) -> dict[str, Any]:
        """What this server is, in the protocol's words."""
        return {"name": "modelkeep", "version": __version__, "extensions": ["binary_tensor_data"]}

    def model_metadata(self) -> dict[str, Any]:
        """What the model takes and gives, in the protocol's words."""
        tensors = [
            {"name": spec.name, "datatype": spec.datatype, "shape": [-1, *spec.shape]}
            for spec in (self.input, self.output)
        ]
        return {
            "name": self.model,
            "versions": [self.version],
            "platform": "modelkeep",
            "inputs": tensors[:1],
            "outputs": tensors[1:],
        }

    def _read_rows(self, request: InferenceRequest) -> Array:
        """The rows that are asked about, as the model computes on them."""
        self.require(request.model, request.version)
        names = [tensor.name for tensor in request.inputs]
        if names != [self.input.name]:
            raise Malformed(f"This model takes one input, '{self.input.name}'. Got {', '.join(names)[:200]}.")
        if request.outputs not in ((), (self.output.name,)):
            raise Malformed(
                f"This model gives one output, '{self.output.name}'. Ask for it, or for none in particular."
            )
        array = request.inputs[0].array
        if len(array) > self.most_rows:
            raise TooLarge(f"A request may have at most {self.most_rows} rows. Got {len(array)}.")
        return canonical(array, self.input)

    async def _guard(self, x: Array) -> tuple[Predictions, Units]:
        """The predictions, and the answers that may leave."""
        queries = query_hashes(x)
        try:
            start = time.perf_counter()
            raw = await self.backend.predict(x)
            self.metrics.observe_model(time.perf_counter() - start)
            if self.gate.policy.defence.needs_inputs:  # these run a network of their own, which takes time
                quick = await asyncio.to_thread(self.gate.quick, raw, queries, torch.from_numpy(x))
            else:
                quick = self.gate.quick(raw, queries)
            if len(quick.slow) == 0:
                return quick.predictions, quick.answers
            start = time.perf_counter()
            settled = await asyncio.to_thread(self.gate.settle, quick, queries)
            self.metrics.observe_store(time.perf_counter() - start)
            return settled
        except NotFinite as error:
            self._blame(error, x)
            log.error("The model did not give a prediction: %s", error)
            raise BadUpstream("The model gave what is no prediction, so there is no answer.") from error
        except InputError as error:  # the query was checked before, so this is about the prediction
            log.error("The model did not give a prediction: %s", error)
            raise BadUpstream("The model gave what is no prediction, so there is no answer.") from error
        except StoreUnavailable as error:
            log.warning("The store is away: %s", error)
            raise Unavailable("The store is away, and an answer that is not kept must not leave.") from error

    def _blame(self, error: NotFinite, x: Array) -> None:
        """Refuse numbers so large that the model overflowed on them; else the fault is the model's."""
        size = float(np.abs(x.astype(np.float64)).max())
        if size > _ORDINARY:
            raise Malformed(
                f"Input '{self.input.name}' holds numbers as large as {size:.3g}, on which the model overflows. Send "
                "inputs as the model was trained on."
            ) from error

    def _count_refusal(self, name: str, rows: int, refusal: Refusal) -> None:
        self.metrics.count_refusal(refusal.status)
        self.traffic.count_refusal(name, refusal.status)
        self.journal.count(name, f"refused {refusal.status}", rows)
