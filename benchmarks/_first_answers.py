"""The first answers of a gateway as `guard init` and `guard serve` set it up: how many are clean, and how far off.

`python benchmarks/_first_answers.py` asks 10,000 different queries of networks of 10, 100 and 1,000 classes, once with
the settings as `guard init` writes them and once with the paper's form, without a secret. What is clean is judged here,
by computing the predictions again, and not by the gateway's own count, which stands beside it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import torch
from numpy.typing import NDArray

from _measure import arguments
from guard import _free_port, _running

QUERIES, BATCH, WIDTH = 10_000, 500, 64
TEMPERATURES = {10: 8.0, 100: 4.0, 1000: 4.0}  # how sure the networks are: mean top confidence 0.87, 0.54, 0.38
NETWORK = """
import torch
from torch import nn

def network():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear({width}, 128), nn.ReLU(), nn.Linear(128, {classes}))
    with torch.no_grad():
        spread = module(torch.randn(1000, {width})).std()
        module[2].weight *= {temperature} / spread
        module[2].bias *= {temperature} / spread
    return module
"""


def main() -> None:
    options = arguments(str(__doc__)).parse_args()
    for classes in TEMPERATURES:
        for form in ("as they come", "paper"):
            print(json.dumps(first_answers(classes, form, options.seed)), flush=True)


def first_answers(classes: int, form: str, seed: int) -> dict[str, object]:
    """What left for the first queries of one gateway."""
    x = np.random.default_rng(seed).normal(size=(QUERIES, WIDTH)).astype(np.float32)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = NETWORK.format(width=WIDTH, classes=classes, temperature=TEMPERATURES[classes])
        (folder / "network.py").write_text(source)
        _modelkeep(folder, "init", "guard.toml", "--model", "network:network")
        port, file = _free_port(), folder / "guard.toml"
        text = file.read_text().replace("port = 8000", f"port = {port}").replace("grpc_port", "# grpc_port")
        text = text.replace("[defence]\n", f"input_shape = [{WIDTH}]\nclasses = {classes}\n[defence]\n")
        file.write_text(text if form == "as they come" else text.replace("secret_file", "# secret_file"))
        keys = {
            who: _modelkeep(folder, "keys", "add", who, "--config", "guard.toml").strip()
            for who in ("thief", "operator")
        }
        program = [sys.executable, "-c", "from modelkeep.cli import main; main()", "guard", "serve", str(file)]
        url = f"http://127.0.0.1:{port}"
        with _running(program, folder, f"{url}/v2/health/ready"), httpx.Client(trust_env=False, timeout=120) as client:
            told = np.concatenate(list(_asked(client, url, keys["thief"], x)))
            header = {"Authorization": f"Bearer {keys['operator']}"}
            page = client.get(f"{url}/dashboard/data", headers=header).json()
    space: dict[str, object] = {}
    exec(source, space)  # the network again, in this process
    with torch.no_grad():
        clean = torch.softmax(space["network"]()(torch.from_numpy(x)).double(), dim=1).numpy()  # type: ignore[operator]
    moved = np.abs(told - clean).sum(axis=1)
    return {
        "classes": classes,
        "form": form,
        "clean": int((moved < 1e-4).sum()),
        "clean by the gateway's count": page["clean"]["rows"],
        "within 0.01": int((moved < 0.01).sum()),
        "largest l1": float(moved.max()),
        "mean l1": float(moved.mean()),
        "mean l2": float(np.linalg.norm(told - clean, axis=1).mean()),
        "top-1 kept": float((told.argmax(axis=1) == clean.argmax(axis=1)).mean()),
        "centroids": sum(page["centroids"]["per_class"]),
    }


def _asked(client: httpx.Client, url: str, key: str, x: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
    for start in range(0, len(x), BATCH):
        rows = x[start : start + BATCH]
        size = {"binary_data_size": rows.nbytes}
        tensor = {"name": "input", "datatype": "FP32", "shape": list(rows.shape), "parameters": size}
        header = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
        answer = client.post(
            f"{url}/v2/models/model/infer",
            content=header + rows.tobytes(),
            headers={"Authorization": f"Bearer {key}", "Inference-Header-Content-Length": str(len(header))},
        )
        answer.raise_for_status()
        end = int(answer.headers["inference-header-content-length"])
        yield np.frombuffer(answer.content[end:], np.float32).reshape(len(rows), -1)


def _modelkeep(folder: Path, *arguments: str) -> str:
    program = [sys.executable, "-c", "from modelkeep.cli import main; main()", "guard", *arguments]
    return subprocess.run(program, cwd=folder, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
