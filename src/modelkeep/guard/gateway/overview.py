"""What the operator's dashboard knows: one dictionary of counts, in which nothing tells about one query."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from modelkeep.core.errors import GuardError, StoreUnavailable
from modelkeep.core.version import __version__
from modelkeep.guard.gateway.principals import OPERATOR
from modelkeep.guard.gateway.query_monitor import ORDINARY
from modelkeep.guard.gateway.service import Service
from modelkeep.guard.gateway.traffic import LATELY

_MOST_SHOWN = 50  # principals on the page, those that asked most


@dataclass(frozen=True)
class Fidelity:
    """A measured curve: the fidelity of a thief's copy after a number of queries."""

    queries: tuple[float, ...]
    fidelity: tuple[float, ...]

    @classmethod
    def read(cls, path: Path) -> Fidelity:
        """The `curve.json` that `modelkeep extract` wrote."""
        try:
            given = json.loads(path.read_text(encoding="utf-8"))
            curve = cls(tuple(map(float, given["queries"])), tuple(map(float, given["fidelity"])))
        except OSError as error:
            raise GuardError(f"The fidelity curve {path} cannot be read: {error.strerror}.") from error
        except (ValueError, KeyError, TypeError) as error:
            raise GuardError(f"{path} is not a fidelity curve with 'queries' and 'fidelity': {error!r}.") from error
        rising = all(a < b for a, b in zip(curve.queries, curve.queries[1:], strict=False))
        if not curve.queries or len(curve.queries) != len(curve.fidelity) or not rising:
            raise GuardError(f"{path} is not a fidelity curve: it needs a fidelity for each of rising queries.")
        if not all(0 <= value <= 1 for value in curve.fidelity):
            raise GuardError(f"{path} is not a fidelity curve: a fidelity lies between 0 and 1.")
        return curve

    def after(self, queries: float) -> dict[str, Any]:
        """The fidelity after that many queries, between measured ones; beyond them only which side it is on."""
        value = float(np.interp(queries, self.queries, self.fidelity))
        if queries < self.queries[0]:
            return {"value": value, "words": f"less than {value:.0%}" if queries else "nothing yet"}
        beyond = queries > self.queries[-1]
        return {"value": value, "words": f"{value:.0%} or more (not measured so far)" if beyond else f"{value:.0%}"}


async def collect(service: Service, fidelity: Fidelity | None) -> dict[str, Any]:
    """Everything that the page shows. Nothing in it tells about one query."""
    traffic, gate = service.traffic, service.gate
    now = int(traffic.clock())
    try:
        principals = await asyncio.to_thread(_principals, service)
        store = "reachable"
    except StoreUnavailable:
        principals, store = [], "away: budgets cannot be shown, and misses cannot be answered"
    answered = sum(asker.rows for asker in traffic.askers.values())
    everybody = sum(one["spent"] for one in principals)
    for one in principals:
        one["fidelity"] = None if fidelity is None else fidelity.after(one["spent"])
    rows, refusals = traffic.rows.until(now), traffic.refusals.until(now)
    return {
        "model": service.model,
        "version": service.version,
        "defence": gate.policy.defence.name,
        "epsilon": gate.policy.defence.epsilon,
        "epoch": gate.policy.epoch,
        "modelkeep": __version__,
        "at": now,
        "up_seconds": now - int(traffic.started),
        "store": store,
        "traffic": {"per_second": rows, "refused_per_second": refusals, "rate": sum(rows[-LATELY:]) / LATELY},
        "answered": answered,
        "clean": {
            "rows": service.metrics.clean_rows,
            "share": service.metrics.clean_rows / answered if answered else None,
        },
        "refused": _refusals(service),
        "latency_ms": _percentiles(traffic.seconds),
        "principals": principals[:_MOST_SHOWN],
        "not_shown": max(0, len(principals) - _MOST_SHOWN),
        "centroids": {
            "per_class": [gate.centroids.length(label) for label in range(gate.policy.classes)],
            "growth": [list(point) for point in traffic.growth],
            "misses": gate.misses,
            "unsure": gate.unsure,
        },
        "distortion": _distortions(service),
        "thief": None if fidelity is None else {"queries": everybody, **fidelity.after(everybody)},
        "curve": None if fidelity is None else asdict(fidelity),
    }


def _principals(service: Service) -> list[dict[str, Any]]:
    """Everybody, those that asked most first. Budgets are durable and shared; the rest is of this replica."""
    store, traffic = service.gate.store, service.traffic
    now = int(traffic.clock())
    spent = store.spent()
    monitor = service.monitor
    suspicions = {} if monitor is None else {one.principal: one for one in monitor.scores()}
    told = []
    for principal in store.principals():
        if principal.name == OPERATOR:
            continue
        # A lease is taken ahead of the queries; what is left of it has not been asked.
        asker = traffic.askers.get(principal.name)
        taken = max(0, spent.get(principal.name, 0) - service.principals.unspent(principal.name))
        suspicion = suspicions.get(principal.name)
        refused = 0 if asker is None else sum(asker.refused.values())
        if suspicion is not None and refused and suspicion.verdict == ORDINARY:
            suspicion = replace(suspicion, verdict=f"not assessed ({refused} refused)")
        told.append(
            {
                "name": principal.name,
                "revoked": principal.revoked,
                "spent": taken,
                "budget": principal.queries,
                "left": None if principal.queries is None else max(0, principal.queries - taken),
                "allowed_rate": principal.rate,
                "rate": 0.0 if asker is None else sum(asker.lately.until(now)) / LATELY,
                "refused": refused,
                "suspicion": None if suspicion is None else asdict(suspicion),
            }
        )
    return sorted(told, key=lambda one: (-one["spent"], one["name"]))


def _refusals(service: Service) -> dict[str, int]:
    """Requests that this replica refused, by HTTP status."""
    total: Counter[int] = Counter()
    for asker in service.traffic.askers.values():
        total.update(asker.refused)
    return {str(status): total[status] for status in sorted(total)}


def _percentiles(seconds: Sequence[float]) -> dict[str, float] | None:
    """Of the latest requests, in milliseconds."""
    if not seconds:
        return None
    at = np.percentile(np.array(seconds), [50, 90, 99]) * 1e3
    return {"p50": round(float(at[0]), 3), "p90": round(float(at[1]), 3), "p99": round(float(at[2]), 3)}


def _distortions(service: Service) -> dict[str, list[float]]:
    """How many rows were distorted how much: counts between edges, as Prometheus is told."""
    from prometheus_client.parser import text_string_to_metric_families

    edges, upto = [0.0], []
    for family in text_string_to_metric_families(service.metrics.render().decode()):
        if family.name == "modelkeep_distortion":
            for sample in family.samples:
                if sample.name.endswith("_bucket") and sample.labels["le"] != "+Inf":
                    edges.append(float(sample.labels["le"]))
                    upto.append(sample.value)
    return {"edges": edges, "counts": [b - a for a, b in zip([0.0, *upto], upto, strict=False)]}
