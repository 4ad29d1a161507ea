"""Other people's programs: the real tritonclient asks the gateway, and a real MLServer answers it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from guard.gateway.gateways import CLASSES, SHAPE, running, small_service
from modelkeep.guard.defences.no_defence import NoDefence
from modelkeep.guard.gateway.backend import softmax
from modelkeep.guard.gateway.principals import add_key
from modelkeep.guard.gateway.upstream import UpstreamBackend
from modelkeep.guard.grid import confidences, snap
from modelkeep.guard.protocol.tensors import TensorSpec
from modelkeep.guard.store.store import Principal
from ports import free_port
from processes import PATIENCE, wait_until

HERE = Path(__file__).parent
PEERS = Path(os.environ.get("MODELKEEP_PEERS", HERE.parents[2] / ".peers"))
ROWS = np.linspace(0, 1, 12, dtype=np.float32).reshape(2, *SHAPE)


@pytest.fixture(scope="module")
def peers() -> Path:
    if not (PEERS / "bin/python").exists():
        pytest.fail(f"There is no environment with the peers in {PEERS}. Make it with: sh tools/peers.sh")
    return PEERS / "bin"


def test_tritonclient_gets_the_same_bits_over_every_transport(peers: Path, tmp_path: Path) -> None:
    service = small_service(tmp_path, open=False)
    key = add_key(service.principals.store, Principal("ann", queries=None, rate=None))
    with running(service) as gateway:
        addresses = [f"127.0.0.1:{gateway.rest}", f"127.0.0.1:{gateway.grpc}"]
        command: list[str | Path] = [
            peers / "python",
            HERE / "triton_client.py",
            *addresses,
            key,
            json.dumps(ROWS.tolist()),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {bits for one in told.values() for bits in one["bits"]} == {told["json"]["bits"][0]}
    assert len(told["json"]["bits"][0]) == 2 * ROWS.shape[0] * CLASSES * 4
    for one in told.values():
        assert (one["live"], one["ready"], one["other"]) == (True, True, False)
        assert one["names"] == ["probabilities"]
    assert told["json"]["refused"] == told["binary"]["refused"] == ["400", "400", "400", "401"]
    assert told["grpc"]["refused"] == [*["StatusCode.INVALID_ARGUMENT"] * 3, "StatusCode.UNAUTHENTICATED"]


@pytest.fixture(scope="module")
def mlserver(peers: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real MLServer with one small model."""
    folder = tmp_path_factory.mktemp("mlserver")
    shutil.copy(HERE / "mlserver_runtime.py", folder)
    http, grpc, metrics = free_port(), free_port(), free_port()
    ports = {"host": "127.0.0.1", "http_port": http, "grpc_port": grpc, "metrics_port": metrics}
    (folder / "settings.json").write_text(json.dumps({**ports, "parallel_workers": 0}))
    (folder / "model-settings.json").write_text(
        json.dumps({"name": "linear", "implementation": "mlserver_runtime.Linear"})
    )
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([peers / "mlserver", "start", "."], cwd=folder, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{http}"

        def ready() -> bool:
            try:
                return httpx.get(f"{url}/v2/models/linear/ready").status_code == 200
            except httpx.TransportError:
                assert process.poll() is None, (folder / "log").read_text()
                return False

        wait_until(ready)
        yield url
    finally:
        process.terminate()
        process.wait(PATIENCE)


def test_a_real_mlserver_gives_its_predictions_and_nothing_else(mlserver: str, tmp_path: Path) -> None:
    tensor = {"name": "x", "shape": [2, *SHAPE], "datatype": "FP32", "data": ROWS.ravel().tolist()}
    direct = httpx.post(f"{mlserver}/v2/models/linear/infer", json={"inputs": [tensor]}).json()
    assert [one["name"] for one in direct["outputs"]] == ["features", "logits"]  # it gives all if nobody says which
    output = TensorSpec("logits", "FP32", (CLASSES,))
    upstream = UpstreamBackend(mlserver, "linear", input="x", output=output, gives="logits")
    with running(small_service(tmp_path, upstream, NoDefence())) as gateway:
        response = httpx.post(f"{gateway.url}/v2/models/small/infer", json={"inputs": [{**tensor, "name": "input"}]})
    (answer,) = response.json()["outputs"]
    logits = np.array(direct["outputs"][1]["data"], np.float32).reshape(2, CLASSES)
    expected = confidences(snap(softmax(logits)).units)
    assert (np.array(answer["data"], np.float32).reshape(2, CLASSES) == expected).all()
    assert answer["name"] == "probabilities"
    assert "secret" not in response.text
    assert "features" not in response.text
