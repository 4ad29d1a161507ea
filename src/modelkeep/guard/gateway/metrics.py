"""What the gateway counts, for Prometheus: a few microseconds per request, and nothing that tells about one query.

Centroids, misses and distortion tell a thief how well it does, so the page needs the operator's key
(`Principals.operator`): behind a proxy on the same machine, all requests come from loopback.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from modelkeep.core.errors import MissingExtra
from modelkeep.core.version import __version__
from modelkeep.guard.grid import ONE

try:
    from prometheus_client import CollectorRegistry, Counter, Histogram, Info, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
    from prometheus_client.registry import Collector
except ImportError as missing:
    raise MissingExtra("guard", "prometheus-client", "The gateway") from missing

if TYPE_CHECKING:
    from modelkeep.guard.gate import Gate

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
DISTORTIONS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0)


class Metrics:
    """The counts of one replica, since it was started.

    >>> metrics = Metrics(epoch="e0", model="digits")
    >>> metrics.count_answer(2, np.array([0, ONE // 2]), seconds=0.003)
    >>> b"modelkeep_rows_total 2.0" in metrics.render()
    True
    """

    def __init__(self, *, epoch: str, model: str, gate: Gate | None = None) -> None:
        self._registry = CollectorRegistry()  # its own: two gateways in one process do not mix
        info = Info("modelkeep_gateway", "What runs here.", registry=self._registry)
        info.info({"version": __version__, "epoch": epoch, "model": model})

        def histogram(name: str, what: str) -> Histogram:
            return Histogram(f"modelkeep_{name}_seconds", what, buckets=SECONDS, registry=self._registry)

        self._requests = Counter("modelkeep_queries", "Requests that were answered.", registry=self._registry)
        self._rows = Counter("modelkeep_rows", "Predictions that left.", registry=self._registry)
        self._clean = Counter(
            "modelkeep_clean_rows", "Answers that were the clean prediction.", registry=self._registry
        )
        self._slack = 0 if gate is None else gate.policy.slack  # what differs by float noise alone is clean
        self.clean_rows = 0
        self._refusals = Counter("modelkeep_refusals", "Requests refused.", ["status"], registry=self._registry)
        self._request = histogram("request", "From a request to its answer.")
        self._backend = histogram("backend", "What the model took for a request.")
        self._store = histogram("store", "What requests with a miss or an unsure row waited for the store.")
        self._distortions = _Distortions()
        self._registry.register(self._distortions)
        if gate is not None:
            self._registry.register(_OfGate(gate))

    def count_answer(self, rows: int, distortion: NDArray[np.int64], seconds: float) -> None:
        """A request was answered: `distortion: (rows,)` is in units, as `grid.distortion` gives it."""
        self._requests.inc()
        self._rows.inc(rows)
        self._request.observe(seconds)
        self._distortions.add(distortion)
        clean = int((distortion <= self._slack).sum())
        if clean:
            self._clean.inc(clean)
            self.clean_rows += clean

    def count_refusal(self, status: int) -> None:
        """A request was refused with this HTTP status (over gRPC: the status that REST would have given)."""
        self._refusals.labels(str(status)).inc()

    def observe_model(self, seconds: float) -> None:
        """The model took this long for a request."""
        self._backend.observe(seconds)

    def observe_store(self, seconds: float) -> None:
        """A request waited this long for the store."""
        self._store.observe(seconds)

    def render(self) -> bytes:
        """The page for Prometheus; its type is `CONTENT_TYPE`."""
        return generate_latest(self._registry)


class _Distortions(Collector):
    """A histogram that takes many rows at once."""

    def __init__(self) -> None:
        self._edges = np.array([int(edge * ONE) for edge in DISTORTIONS], dtype=np.int64)
        self._counts = np.zeros(len(DISTORTIONS) + 1, dtype=np.int64)
        self._sum = 0
        self._lock = threading.Lock()

    def add(self, distortion: NDArray[np.int64]) -> None:
        bucket = np.searchsorted(self._edges, distortion, side="left")  # le: an edge belongs to its own bucket
        with self._lock:
            self._counts += np.bincount(bucket, minlength=len(self._counts))
            self._sum += int(distortion.sum())

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            upto, total = np.cumsum(self._counts), self._sum / ONE
        edges = [*(str(edge) for edge in DISTORTIONS), "+Inf"]
        family = HistogramMetricFamily("modelkeep_distortion", "ℓ1 from the clean prediction to the answer that left.")
        family.add_metric([], [(edge, float(count)) for edge, count in zip(edges, upto, strict=True)], total)
        yield family


class _OfGate(Collector):
    """What the gate counts itself, read when the page is made."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def collect(self) -> Iterator[Metric]:
        gate = self._gate
        yield CounterMetricFamily("modelkeep_misses", "Centroids that this replica appended.", value=gate.misses)
        yield CounterMetricFamily("modelkeep_unsure", "Rows that float noise could have changed.", value=gate.unsure)
        sizes = GaugeMetricFamily("modelkeep_centroids", "Centroids that this replica has read.", labels=["class"])
        for label in range(gate.policy.classes):
            sizes.add_metric([str(label)], gate.centroids.length(label))
        yield sizes
