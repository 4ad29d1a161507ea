"""Two processes train one model, and get what one process gets from the whole batch, up to rounding."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from runpy import run_path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file

from modelkeep.training import cross_entropy, fit
from modelkeep.training.parallel import ALONE, Group, group
from processes import PATIENCE

TOGETHER = Path(__file__).parent / "together.py"


def test_two_processes_train_as_one(tmp_path: Path) -> None:
    # A file to meet at, and the loopback interface to talk over: nothing listens on other addresses.
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    commands = [[sys.executable, str(TOGETHER), str(rank), str(tmp_path)] for rank in range(2)]
    running = [subprocess.Popen(c, env=environment, stderr=subprocess.PIPE, text=True) for c in commands]
    try:
        for process in running:
            _, complaint = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, complaint
    finally:
        for process in running:
            process.kill()
            process.communicate()

    script = run_path(str(TOGETHER), run_name="imported")
    model, data = script["network"](0), script["data"]()
    alone = fit(model, data, cross_entropy, script["RECIPE"], seed=0, held_out=data)
    first, second = (load_file(tmp_path / f"weights{rank}") for rank in range(2))
    for name, tensor in model.module.state_dict().items():
        assert torch.equal(first[name], second[name])
        assert torch.allclose(first[name], tensor, atol=1e-5)
    with safe_open(tmp_path / "weights0", "pt") as file:
        history = json.loads(file.metadata()["history"])
    assert [row["step"] for row in history] == [row.step for row in alone.history]
    for together, row in zip(history, alone.history, strict=True):
        assert row.loss is not None
        assert row.accuracy is not None
        assert together["train_loss"] == pytest.approx(row.train_loss, rel=1e-4)
        assert together["loss"]["value"] == pytest.approx(row.loss.value, rel=1e-4)
        assert together["accuracy"]["n"] == row.accuracy.n == 33
    # Batch norm sees its own share in each process, but all end with the same statistics.
    first, second = (load_file(tmp_path / f"normalised{rank}") for rank in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


@given(n=st.integers(1, 40), size=st.integers(1, 6))
def test_shares_make_up_the_batch_and_weights_its_mean(n: int, size: int) -> None:
    batch = torch.arange(n, dtype=torch.float64)
    groups = [Group(rank, size) for rank in range(size)]
    held = torch.cat([g.shard(batch) for g in groups if g.weight(n)])
    assert held.sort().values.tolist() == batch.tolist()
    mean = sum(float(g.shard(batch).mean()) * g.weight(n) for g in groups)
    assert mean == pytest.approx(float(batch.mean()))
    assert all(len(g.shard(batch)) for g in groups)


def test_without_a_process_group_one_is_alone() -> None:
    assert group() is ALONE
