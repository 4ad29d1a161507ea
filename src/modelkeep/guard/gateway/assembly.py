"""From settings to a service that can answer: the model, its policy, the store, and the guard between."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core.errors import GuardError, InputError
from modelkeep.core.model import Model
from modelkeep.core.model_file import Description
from modelkeep.guard.gate import Gate
from modelkeep.guard.gateway.backend import Backend, LocalBackend, Probabilities
from modelkeep.guard.gateway.clean_answers import open_owners_data
from modelkeep.guard.gateway.config import Config
from modelkeep.guard.gateway.journal import Journal
from modelkeep.guard.gateway.metrics import Metrics
from modelkeep.guard.gateway.principals import Principals
from modelkeep.guard.gateway.query_monitor import QueryMonitor
from modelkeep.guard.gateway.service import Service
from modelkeep.guard.grid import distortion, snap
from modelkeep.guard.policy import Policy
from modelkeep.guard.protocol.tensors import DTYPES, Array, TensorSpec, query_hashes
from modelkeep.guard.refusals import Refusal
from modelkeep.guard.store.store import Store
from modelkeep.zoo import pretrained

DATATYPES = {"torch.float32": "FP32", "torch.float64": "FP64"}
_OWN = 1000  # rows of the owner's data that seed the lists, and that detection compares with


@dataclass(frozen=True, eq=False)
class Plan:
    """What the settings mean: which model, which policy, what clients send. A model that is run here is loaded."""

    config: Config
    model: Model | None
    policy: Policy
    input: TensorSpec
    output: TensorSpec


def make_plan(config: Config) -> Plan:
    """Load the model and make the defence. Nothing is opened yet."""
    served = config.model
    model = None
    if served.path is not None:
        model = load(config)
        shape, classes, fingerprint = model.input_shape, len(model.classes), model.fingerprint()
        dtype = str(model.dtype)
        if dtype not in DATATYPES:
            raise GuardError(f"The model computes in {dtype}; the gateway serves {' and '.join(DATATYPES)}.")
        datatype = DATATYPES[dtype]
    else:
        assert served.input_shape is not None  # the settings were checked as a whole
        assert served.classes is not None
        shape, datatype, dtype = served.input_shape, served.dtype, served.dtype
        classes = served.classes if isinstance(served.classes, int) else len(served.classes)
        # Its weights cannot be seen from here: name and version stand for them.
        fingerprint = f"{served.upstream_model or served.name} {served.version} {served.output} as {served.kind}"
    policy = Policy(config.defence.build(config.at("")), fingerprint, classes, dtype, config.defence.noise)
    if policy.defence.needs_inputs:  # its own network must take the same inputs and tell the same classes apart
        unsure = snap(np.full((1, classes), 1 / classes))
        policy.defence(unsure, policy.defence.initial(classes), torch.zeros(1, *shape))
    # The answers are exact in float32, whatever the model computes in.
    return Plan(
        config, model, policy, TensorSpec(served.input, datatype, shape), TensorSpec(served.output, "FP32", (classes,))
    )


def load(config: Config) -> Model:
    """The model that `path` names."""
    served = config.model
    assert served.path is not None
    if served.path in pretrained.names():
        return pretrained.load(served.path, device=served.device)
    source = config.at(served.path) if ":" not in served.path else served.path
    card, describe = _card(config), None if served.describe is None else config.at(served.describe)
    weights = None if served.weights is None else config.at(served.weights)
    if ":" not in served.path:
        return Model.load(source, weights=weights, describe=describe, device=served.device, **card)
    # Last, and only for a factory that the owner named: a file in this folder must not pass for a library.
    sys.path.append(str(config.at("").absolute()))
    return Model.load(source, weights=weights, describe=describe, device=served.device, **card)


def _card(config: Config) -> dict[str, Any]:
    """What the settings say about the model."""
    served = config.model
    said = Description(
        arguments=served.arguments,
        classes=served.classes,
        input_shape=served.input_shape,
        layout=served.layout,
        mean=served.mean,
        std=served.std,
        processor=None if served.processor is None else config.at(served.processor),
        bounds=served.bounds,
    )
    return said.card()


def claim_epoch(store: Store, name: str, version: str, epoch: str) -> None:
    """Let this name and version mean this epoch for ever, or refuse where it means another one already.

    State is kept per epoch and cannot mix; but a replica with other weights or another budget under the same name would
    answer a query in another way than its neighbours.
    """
    query = sha256(f"{name} {version}".encode()).digest()
    ours = np.frombuffer(bytes.fromhex(epoch), dtype="<i4").astype(np.int32)
    held = store.remember("epochs of models", {query: ours})[query]
    if not np.array_equal(held, ours):
        other = held.astype("<i4").tobytes().hex()
        raise GuardError(
            f"This store has answered for model '{name}' version '{version}' under another epoch ({other[:12]}, now "
            f"{epoch[:12]}): its weights, defence, budget or noise were others, and the same query would now get "
            "another answer. Restore the old settings, or give the model a new version in [model]."
        )


def _check_probe(store: Store, plan: Plan, probe: Array, raw: Probabilities) -> None:
    """Refuse a model that predicts something else for the probe than when its name and version were first served.

    Weights tell one model from another, but not the code that runs them, nor what an upstream serves by the same name.
    """
    served, policy = plan.config.model, plan.policy
    (query,), (ours,) = query_hashes(probe), snap(raw).units
    held = store.remember(f"probe of {served.name} {served.version}", {query: ours})[query]
    if int(distortion(held, ours)) > policy.slack:
        raise GuardError(
            f"Model '{served.name}' version '{served.version}' predicts something else than when this store first saw "
            f"it, by more than the noise of {policy.noise:g}, though weights and settings are the same: its code or "
            "the upstream's model changed. Restore them, or give the model a new version in [model]."
        )


async def build_service(plan: Plan, store: Store) -> Service:
    """A service that has read the store, and whose model has answered once."""
    config, policy, served = plan.config, plan.policy, plan.config.model
    backend: Backend
    if plan.model is not None:
        backend = LocalBackend(plan.model)
    else:
        from modelkeep.guard.gateway.upstream import UpstreamBackend

        assert served.upstream is not None
        backend = UpstreamBackend(
            served.upstream,
            served.upstream_model or served.name,
            input=plan.input.name,
            output=plan.output,
            gives=served.kind,
        )
    claim_epoch(store, served.name, served.version, policy.epoch)
    gate = Gate(policy, store)
    probe = np.random.default_rng(0).random((1, *plan.input.shape)).astype(DTYPES[plan.input.datatype])
    try:
        # Also compiles what guards a query, so that the first client does not wait for it.
        raw = await backend.predict(probe)
        if not policy.defence.needs_inputs:
            gate.quick(raw, query_hashes(probe))
        _check_probe(store, plan, probe, raw)
        seed_data = getattr(config.defence, "seed_data", None)
        if seed_data is not None:
            gate.seed(snap(await _predictions(config, seed_data, backend)))
    except (InputError, Refusal) as error:
        raise GuardError(
            f"{served.path or served.upstream} was asked once, to see whether it answers, and gave none: {error}"
        ) from error
    return Service(
        model=served.name,
        version=served.version,
        input=plan.input,
        output=plan.output,
        backend=backend,
        gate=gate,
        principals=Principals(store, open=config.principals.open),
        metrics=Metrics(epoch=policy.epoch, model=served.name, gate=gate),
        journal=Journal(store),
        monitor=QueryMonitor(await _top_confidences(config, backend)) if config.detection.enabled else None,
        most_bytes=config.server.max_body,
        most_json=config.server.max_json,
    )


async def _top_confidences(config: Config, backend: Backend) -> NDArray[np.float64] | None:
    """How sure the model is about the owner's own data, which queries are compared with."""
    if config.detection.data is None:
        return None
    top: NDArray[np.float64] = (await _predictions(config, config.detection.data, backend)).max(axis=1)
    return top


async def _predictions(config: Config, named: str, backend: Backend) -> Probabilities:
    """What the model predicts for the owner's own data."""
    rows = open_owners_data(config, named).x[:_OWN].numpy()
    return np.concatenate([await backend.predict(rows[i : i + 100]) for i in range(0, len(rows), 100)])
