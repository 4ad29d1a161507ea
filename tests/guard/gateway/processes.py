"""Gateways in processes of their own: started as a user starts them, asked over sockets, killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from ports import free_port
from processes import PATIENCE

# A network that is slow where the first feature says so, read as `slow:build` from the folder of the settings.
SLOW = """
import time
from pathlib import Path

import torch
from torch import nn


class Slow(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        if (x[:, 0] > 100).any():
            Path(__file__).with_name("busy").touch()
            time.sleep(1.5)
        return self.linear(x.clamp(-1, 1)) * 4


def build():
    return Slow()
"""

SETTINGS = """
[server]
port = {port}
grpc_port = {grpc_port}
{tls}

[model]
name = "slow"
path = "slow:build"
input_shape = [4]
classes = 3

[defence]
name = "modelguard-s"
epsilon = 0.1

[store]
url = "sqlite:///state.sqlite3"
"""


def settings(folder: Path, tls: str = "") -> Path:
    """A folder with a network and settings that serve it."""
    (folder / "slow.py").write_text(SLOW)
    path = folder / "guard.toml"
    path.write_text(SETTINGS.format(port=free_port(), grpc_port=free_port(), tls=tls))
    return path


class Gateway:
    """`modelkeep guard serve` in a process of its own; ready when this is made."""

    def __init__(self, config: Path) -> None:
        code = "from modelkeep.cli import main; main()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "guard", "serve", str(config), "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert self.process.stdout is not None
        told = self.process.stdout.readline()  # printed once it would answer; ends, too, if the process does
        if not told:
            raise AssertionError(self.ended()[1])
        self.summary: dict[str, Any] = json.loads(told)
        self.url: str = self.summary["rest"]

    def ended(self) -> tuple[int, str]:
        """Its exit code and what it said on stderr, after it has ended."""
        _, said = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, said

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def question(rows: list[list[float]]) -> dict[str, Any]:
    """The body of a request."""
    flat = [value for row in rows for value in row]
    return {"inputs": [{"name": "input", "datatype": "FP32", "shape": [len(rows), 4], "data": flat}]}
