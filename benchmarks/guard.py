"""What guarding costs: the defences by themselves, and a gateway with a defence against the same gateway without one.

Gateways are real processes on loopback, asked by this one. Steady state: the queries have been asked before, as most
have in a service that runs for days. Floor: the gateway with no defence; as a proxy, the upstream (MLServer) itself.
Peers of the defences: the authors' way (PuLP + CBC), scipy's HiGHS, and the obvious loop of algorithm 1.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import numpy as np

import defences
from _load import flat_out, request, steady
from _measure import arguments, report

CLASSES, FEATURES, RATE, POOL = 100, 64, 200.0, 5000
ROUNDS, SECONDS = 40, 1.0  # short turns, so that a slow moment of the machine hits all sides
SETTINGS = """
[server]
port = {port}
[model]
{model}
[defence]
name = "{defence}"
[store]
url = "sqlite:///{defence}.sqlite3"
[principals]
open = true
[detection]
enabled = false
"""
NETWORK = f"""
import torch
from torch import nn

def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear({FEATURES}, 128), nn.ReLU(), nn.Linear(128, {CLASSES}))
"""
HERE = f'path = "network:network"\ninput_shape = [{FEATURES}]\nclasses = {CLASSES}'
UPSTREAM = f"""
import numpy as np
from mlserver import MLModel
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput

class Classifier(MLModel):
    async def load(self):
        self.weights = np.random.default_rng(0).normal(size=({FEATURES}, {CLASSES}))
        return True

    async def predict(self, payload):
        x = np.asarray(payload.inputs[0].data, dtype=np.float64).reshape(payload.inputs[0].shape)
        y = np.exp(x @ self.weights)
        y /= y.sum(axis=1, keepdims=True)
        output = ResponseOutput(name="probabilities", datatype="FP64", shape=list(y.shape), data=y.ravel().tolist())
        return InferenceResponse(model_name="model", outputs=[output])
"""


def main() -> None:
    options = arguments(str(__doc__)).parse_args()
    figures = defences.figures(options.seed) | gateway(options.seed) | proxy(options.seed)
    report(figures, options.json)


def gateway(seed: int) -> dict[str, float]:
    """The defence's share of a query through a gateway, at a steady rate and flat out."""
    x = np.random.default_rng(seed).normal(size=(POOL, FEATURES)).astype(np.float32)
    asked = [request(row[None], "model", "input", binary=True) for row in x]
    latencies: dict[str, list[float]] = {}
    throughput: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        (folder / "network.py").write_text(NETWORK)
        ports = {
            defence: stack.enter_context(served(folder, SETTINGS, model=HERE, defence=defence))
            for defence in ("none", "modelguard-s", "modelguard-w")
        }
        for port in ports.values():  # ask everything once: the steady state
            asyncio.run(flat_out(port, asked[: POOL // 2], 4.0, connections=2))
            asyncio.run(_all_once(port, asked))
        for turn in range(ROUNDS):
            for defence, port in ports.items():
                latencies.setdefault(defence, []).extend(asyncio.run(steady(port, _from(asked, turn), RATE, SECONDS)))
                throughput.setdefault(defence, []).append(asyncio.run(flat_out(port, asked, SECONDS / 2)))
    # Over all rounds together: one of a second has two latencies beyond its p99, which says nothing.
    middle = {name: np.percentile(taken, [50, 99]) * 1e3 for name, taken in latencies.items()}
    rate = {name: median(rounds) for name, rounds in throughput.items()}
    return {
        "added_p50_ms": float(middle["modelguard-s"][0] - middle["none"][0]),
        "added_p99_ms": float(middle["modelguard-s"][1] - middle["none"][1]),
        "throughput_over_undefended": rate["modelguard-s"] / rate["none"],
        "undefended_p50_ms": float(middle["none"][0]),
        "undefended_p99_ms": float(middle["none"][1]),
        "undefended_requests_per_second": rate["none"],
        "modelguard_w_added_p50_ms": float(middle["modelguard-w"][0] - middle["none"][0]),
        "modelguard_w_throughput_over_undefended": rate["modelguard-w"] / rate["none"],
    }


def _from(asked: list[bytes], turn: int) -> list[bytes]:
    """The queries, beginning elsewhere each turn, so that all of them are asked."""
    first = turn * int(RATE * SECONDS) % len(asked)
    return asked[first:] + asked[:first]


async def _all_once(port: int, asked: list[bytes]) -> None:
    from _load import Connection

    connection = await Connection.to(port)
    for content in asked:
        await connection.ask(content)
    connection.writer.close()


def proxy(seed: int) -> dict[str, float]:
    """What the whole gateway with ModelGuard-S adds to a real upstream, asked at half its rate."""
    x = np.random.default_rng(seed).normal(size=(500, FEATURES)).astype(np.float32)
    direct = [request(row[None], "model", "input", binary=False) for row in x]
    through = [request(row[None], "model", "input", binary=True) for row in x]
    latencies: dict[str, list[float]] = {"direct": [], "through": []}
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        upstream = stack.enter_context(mlserver(folder))
        model = f'upstream = "http://127.0.0.1:{upstream}"\ninput_shape = [{FEATURES}]\nclasses = {CLASSES}'
        port = stack.enter_context(served(folder, SETTINGS, model=model, defence="modelguard-s"))
        asyncio.run(_all_once(port, through))
        for turn in range(ROUNDS):
            latencies["direct"] += asyncio.run(steady(upstream, _from(direct, turn), RATE / 4, SECONDS))
            latencies["through"] += asyncio.run(steady(port, _from(through, turn), RATE / 4, SECONDS))
    upstream_p50, proxy_p50 = (median(latencies[way]) * 1e3 for way in ("direct", "through"))
    return {"proxy_p50_ms": proxy_p50 - upstream_p50, "upstream_p50_ms": upstream_p50}


@contextmanager
def served(folder: Path, settings: str, *, model: str, defence: str) -> Iterator[int]:
    """A gateway in a process of its own; its port."""
    port = _free_port()
    file = folder / f"{port}.toml"
    file.write_text(settings.format(port=port, model=model, defence=defence))
    program = [sys.executable, "-c", "from modelkeep.cli import main; main()", "guard", "serve", str(file)]
    with _running(program, folder, f"http://127.0.0.1:{port}/v2/health/ready"):
        yield port


@contextmanager
def mlserver(folder: Path) -> Iterator[int]:
    """A real MLServer with a classifier in numpy; its port."""
    port, own = _free_port(), folder / "upstream"
    own.mkdir()
    (own / "classifier.py").write_text(UPSTREAM)
    (own / "settings.json").write_text(
        f'{{"host": "127.0.0.1", "http_port": {port}, "grpc_port": {_free_port()}, "metrics_port": {_free_port()}, '
        '"metrics_endpoint": null, "parallel_workers": 0, "debug": false}'
    )
    (own / "model-settings.json").write_text('{"name": "model", "implementation": "classifier.Classifier"}')
    program = [str(Path(__file__).parent.parent / ".peers/bin/mlserver"), "start", str(own)]
    with _running(program, own, f"http://127.0.0.1:{port}/v2/models/model/ready"):
        yield port


@contextmanager
def _running(program: list[str], folder: Path, ready: str) -> Iterator[None]:
    import httpx

    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            program, cwd=folder, stdout=log, stderr=log, env=os.environ | {"OMP_NUM_THREADS": "1"}
        )
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                if httpx.get(ready, trust_env=False).status_code == 200:
                    break
            except httpx.TransportError:
                pass
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{program} did not start: {(folder / 'log').read_text()[-2000:]}")
            time.sleep(0.1)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
