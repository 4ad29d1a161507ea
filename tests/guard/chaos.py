"""Chaos: many clients ask several replicas while replicas and the database are killed, and no answer may change.

`python tests/guard/chaos.py --queries 1000000` runs the long form; the tests run a short one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx
import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))
from guard.postgres_server import PostgresServer
from modelkeep.guard.grid import ONE, budget, distortion, snap
from modelkeep.guard.store.postgres import PostgresStore
from ports import free_port

CLASSES = 10
EPSILON = 0.3
NOISE = 1e-5
SETTINGS = f"""
[server]
port = {{port}}
[model]
path = "guard.shaky:network"
input_shape = [{CLASSES}]
classes = {CLASSES}
[defence]
name = "modelguard-s"
epsilon = {EPSILON}
noise = {NOISE}
[store]
url = "{{store}}"
[principals]
open = true
[detection]
enabled = false
"""


@dataclass
class Told:
    """What happened."""

    queries: int = 0
    requests: int = 0
    repeated: int = 0
    replicas_killed: int = 0
    database_restarts: int = 0
    seconds: float = 0.0
    centroids: int = 0
    problems: list[str] = field(default_factory=list)


class Replica:
    """One gateway process, to be killed and started again."""

    def __init__(self, folder: Path, store: str) -> None:
        port = free_port()
        self.address = f"http://127.0.0.1:{port}"
        self.settings = folder / f"{port}.toml"
        self.settings.write_text(SETTINGS.format(port=port, store=store))
        self.answered = False  # whether it has, since it was started
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        program = [sys.executable, "-c", "from modelkeep.cli import main; main()", "guard", "serve", str(self.settings)]
        paths = os.pathsep.join([str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
        with self.settings.with_suffix(".log").open("ab") as log:
            return subprocess.Popen(
                program, stdout=log, stderr=log, env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
            )

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Chaos:
    """The clients' side: what was asked, and the first answer that each query got."""

    def __init__(self, queries: int, batch: int, replicas: list[Replica], kinds: int, seed: int) -> None:
        self.wanted, self.batch, self.replicas = queries, batch, replicas
        self.pool = pool(np.random.default_rng(seed), kinds)
        self.x = np.log(np.maximum(self.pool, 1e-12)).astype(np.float32)
        self.first: dict[int, bytes] = {}
        self.told = Told()

    async def client(self, number: int) -> None:
        """Ask random queries of random replicas until enough were answered; what failed is asked again."""
        random = np.random.default_rng([number, 17])
        async with httpx.AsyncClient(timeout=20, trust_env=False) as http:
            while self.told.queries < self.wanted and not self.told.problems:
                rows = random.integers(len(self.pool), size=self.batch)
                while not await self._asked(http, rows, self.replicas[random.integers(len(self.replicas))]):
                    self.told.repeated += 1
                    await asyncio.sleep(0.05)

    async def _asked(self, http: httpx.AsyncClient, rows: NDArray[np.int64], replica: Replica) -> bool:
        x = self.x[rows]
        size = x.nbytes
        tensor = {"name": "input", "datatype": "FP32", "shape": list(x.shape), "parameters": {"binary_data_size": size}}
        header = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
        try:
            response = await http.post(
                f"{replica.address}/v2/models/model/infer",
                content=header + x.tobytes(),
                headers={"Inference-Header-Content-Length": str(len(header))},
            )
        except httpx.TransportError:  # killed in the middle, or not up again yet
            return False
        if response.status_code == 503:
            return False
        if response.status_code != 200:
            self.told.problems.append(f"status {response.status_code}: {response.text[:300]}")
            return True
        replica.answered = True
        length = int(response.headers["Inference-Header-Content-Length"])
        answers = np.frombuffer(response.content[length:], dtype="<f4").reshape(-1, CLASSES)
        for row, answer in zip(rows.tolist(), answers, strict=True):
            if self.first.setdefault(row, answer.tobytes()) != answer.tobytes():
                self.told.problems.append(f"query {row} got two answers")
        self.told.queries += len(rows)
        self.told.requests += 1
        return True

    async def killer(self, pause: tuple[float, float], kills: int | None) -> None:
        """`kill -9` of a random replica that answers, again and again; each is started again at once."""
        random = np.random.default_rng(23)
        while kills is None or self.told.replicas_killed < kills:
            await asyncio.sleep(random.uniform(*pause))
            if not (up := [replica for replica in self.replicas if replica.answered]):
                continue
            replica = up[random.integers(len(up))]
            replica.kill()
            replica.answered = False
            self.told.replicas_killed += 1
            replica.process = replica.start()

    async def restarter(self, server: PostgresServer, times: int) -> None:
        """Stop the database in the middle of everything, and start it again."""
        for time_ in range(times):
            while self.told.queries < self.wanted * (time_ + 1) / (times + 1):
                await asyncio.sleep(0.05)
            await asyncio.to_thread(server.restart)
            self.told.database_restarts += 1

    def check(self, store: PostgresStore, epoch: str) -> None:
        """That each answer's centroid is durable, and that what left kept the constraints."""
        logs = {label: store.centroids(epoch, label, 0) for label in range(CLASSES)}
        known = {label: {row.tobytes() for row in log} for label, log in logs.items()}
        clean = snap(self.pool)
        slack = int(np.ceil(NOISE * ONE)) + 4 * CLASSES  # the prediction that was answered lay within the noise of ours
        for row, answer in self.first.items():
            units = np.rint(np.frombuffer(answer, dtype="<f4").astype(np.float64) * ONE).astype(np.int32)
            top, near_tie = int(units.argmax()), np.diff(np.sort(clean.units[row])[-2:])[0] <= slack
            if units.tobytes() not in known[top]:
                self.told.problems.append(f"the centroid that answered query {row} is lost")
            if units.sum() != ONE or (units < 0).any() or (np.sort(units)[-2] >= units[top]):
                self.told.problems.append(f"the answer to query {row} is no prediction with one top label")
            if top != clean.labels[row] and not near_tie:
                self.told.problems.append(f"the answer to query {row} has another top label")
            if distortion(units, clean.units[row]) > budget(EPSILON) + slack:
                self.told.problems.append(f"the answer to query {row} is too far from its prediction")
        self.told.centroids = sum(map(len, logs.values()))


def pool(random: np.random.Generator, kinds: int) -> NDArray[np.float64]:
    """Predictions of every kind: flat, peaked, tied, and at exactly the budget's distance from others."""
    rows = np.arange(kinds // 3)
    flat = random.dirichlet(np.ones(CLASSES), kinds)
    peaked = random.dirichlet(np.full(CLASSES, 0.1), kinds)
    moved = flat[rows].copy()
    top, second = np.argsort(moved, axis=1)[:, -1], np.argsort(moved, axis=1)[:, 0]
    give = np.minimum(EPSILON / 2, moved[rows, top])
    moved[rows, top] -= give
    moved[rows, second] += give
    tied = flat[-len(rows) // 2 :].copy()
    tied[:, :2] = tied.max(axis=1, keepdims=True)
    every = np.concatenate([flat, peaked, moved, tied / tied.sum(axis=1, keepdims=True)]) + 1e-9
    return np.asarray(every / every.sum(axis=1, keepdims=True))


def run(
    queries: int,
    *,
    clients: int = 32,
    replicas: int = 3,
    batch: int = 64,
    pause: tuple[float, float] = (2.0, 5.0),
    kills: int | None = None,
    restarts: int = 2,
    kinds: int = 6000,
    fsync: bool = True,
    seed: int = 0,
) -> Told:
    """Ask `queries` queries in the middle of the chaos, then check everything."""
    server = PostgresServer(fsync=fsync)
    with tempfile.TemporaryDirectory() as folder:
        fleet = [Replica(Path(folder), server.dsn) for _ in range(replicas)]
        try:
            chaos = Chaos(queries, batch, fleet, kinds, seed)
            start = time.monotonic()
            asyncio.run(_all(chaos, server, clients, chaos.killer(pause, kills), restarts))
            chaos.told.seconds = round(time.monotonic() - start, 1)
            store = PostgresStore(server.dsn)
            chaos.check(store, _epoch(fleet[0]))
            store.close()
            if chaos.told.problems:  # what the replicas said helps to find out why
                chaos.told.problems += [log.read_text()[-2000:] for log in Path(folder).glob("*.log")]
            return chaos.told
        finally:
            for replica in fleet:
                replica.kill()
            server.close()


async def _all(
    chaos: Chaos, server: PostgresServer, clients: int, killer: Coroutine[None, None, None], restarts: int
) -> None:
    asking = [asyncio.create_task(chaos.client(number)) for number in range(clients)]
    restarting = asyncio.create_task(chaos.restarter(server, restarts))
    killing = asyncio.create_task(killer)
    progress = asyncio.create_task(_progress(chaos))
    await asyncio.gather(*asking)
    for task in (restarting, killing, progress):
        task.cancel()
        if not task.cancelled() and task.done():
            task.result()
    await asyncio.gather(restarting, killing, progress, return_exceptions=True)


async def _progress(chaos: Chaos) -> None:
    while True:
        await asyncio.sleep(10)
        told = chaos.told
        sys.stderr.write(f"{told.queries} of {chaos.wanted} queries, {told.replicas_killed} kills\n")


def _epoch(replica: Replica) -> str:
    from modelkeep.guard.gateway.assembly import make_plan
    from modelkeep.guard.gateway.config import read_config

    return make_plan(read_config(replica.settings)).policy.epoch


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=64)
    told = run(**vars(parser.parse_args()))
    sys.stdout.write(json.dumps(asdict(told), indent=2) + "\n")
    sys.exit(bool(told.problems))
