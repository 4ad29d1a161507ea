"""Two machines, as the documentation says it: each party in a network namespace of its own, joined by one cable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from cli.governed import MAIN, found, serving
from cli.running import Ran
from modelkeep import Model
from modelkeep.cli import app
from modelkeep.govern import Agreement
from modelkeep.training import cross_entropy, fit
from modelkeep.zoo import datasets
from processes import PATIENCE

ADDRESSES = {"alice": "10.231.7.1", "bob": "10.231.7.2"}


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def modelkeep(*arguments: str | Path) -> Ran:
    """The command in this process and in the folder where we are."""
    ran = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    return Ran(ran.exit_code, ran.stdout, ran.stderr)


@pytest.fixture
def machines() -> Iterator[dict[str, str]]:
    """Two namespaces with a cable between them; nothing else reaches them, and they reach nothing else."""
    names = {party: f"modelkeep-{party}-{os.getpid()}" for party in ADDRESSES}
    try:
        for name in names.values():
            try:
                _ip("netns", "add", name)
            except (OSError, subprocess.CalledProcessError) as error:
                why = getattr(error, "stderr", None) or error
                pytest.skip(f"this machine does not let us make network namespaces: {str(why).strip()}")
        _ip(
            "-n", names["alice"], "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", names["bob"]
        )
        for party, name in names.items():
            _ip("-n", name, "address", "add", f"{ADDRESSES[party]}/24", "dev", "cable")
            _ip("-n", name, "link", "set", "cable", "up")
        yield names
    finally:
        for name in names.values():
            with suppress(OSError, subprocess.CalledProcessError):
                _ip("netns", "delete", name)


def test_two_machines_train_the_weights_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machines: dict[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found(modelkeep, addresses={party: f"{address}:7401" for party, address in ADDRESSES.items()})
    training = ("govern", "train", "alice", "--data", "digits", "--patience", "30", "--json")
    with serving(tmp_path / "bob", "ip", "netns", "exec", machines["bob"]):
        trained = subprocess.run(
            [*("ip", "netns", "exec", machines["alice"]), sys.executable, "-c", MAIN, *training],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert trained.returncode == 0, trained.stderr
        assert json.loads(trained.stdout)["updates"] == 12
        assert modelkeep("govern", "approve", "bob", "--purpose", "release").code == 0
        released = subprocess.run(
            [*("ip", "netns", "exec", machines["alice"]), sys.executable, "-c", MAIN, "govern", "release", "alice"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert released.returncode == 0, released.stderr

    for party in ADDRESSES:
        assert modelkeep("govern", "export", party).code == 0
    pieces = [f"export/{party}.piece.safetensors" for party in ADDRESSES]
    assert modelkeep("govern", "assemble", "agreement.json", *pieces).code == 0
    assert modelkeep("govern", "audit", "agreement.json", "alice", "bob").code == 0
    agreement = Agreement.read(tmp_path / "agreement.json")
    torch.manual_seed(0)
    alone = agreement.build()
    fit(alone, datasets.load("digits", "train"), cross_entropy, agreement.recipe, seed=agreement.seed)
    whole = Model.load(tmp_path / "model.safetensors").module.state_dict()
    for name, tensor in alone.module.state_dict().items():
        assert torch.equal(whole[name], tensor), name
