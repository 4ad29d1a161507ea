"""A governed model from the command line, for tests: two parties that have signed and hold their pieces."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.running import Run
from ports import free_port
from processes import PATIENCE

MAIN = "from modelkeep.cli import main; main()"


def found(modelkeep: Run, *, steps: int = 12, addresses: dict[str, str] | None = None) -> None:
    """As the documentation says it: init, draft, sign and split, in the command's own folder."""
    at = addresses or {name: f"127.0.0.1:{free_port()}" for name in ("alice", "bob")}
    for name in ("alice", "bob"):
        assert modelkeep("govern", "init", name, "--no-passphrase").code == 0
    parties = [word for name in at for word in ("--party", f"{name}/{name}.party.json")]
    listening = [word for name, address in at.items() for word in ("--address", f"{name}={address}")]
    network = ["--model", "small_cnn", "--cut", "conv1_pool", "--holders", "alice,bob", "--data", "digits"]
    recipe = ["--steps", str(steps), "--batch-size", "64", "--learning-rate", "0.003", "--checkpoint-every", "4"]
    drafted = modelkeep("govern", "draft", "agreement.json", *parties, *listening, *network, *recipe)
    assert drafted.code == 0, drafted.err
    for name in ("alice", "bob", "alice"):  # the last time to have what Bob has signed too
        signed = modelkeep("govern", "sign", "agreement.json", "--folder", name, "--yes")
        assert signed.code == 0, signed.err
    assert modelkeep("govern", "split", "new", "alice", "bob", "--agreement", "agreement.json").code == 0


@contextmanager
def serving(folder: Path, *before: str) -> Iterator[subprocess.Popen[str]]:
    """`modelkeep govern serve` in a process of its own, ready; ended as a person would."""
    process = subprocess.Popen(
        [*before, sys.executable, "-c", MAIN, "govern", "serve", str(folder), "--data", "digits", "--plain"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        ready = process.stdout.readline()
        assert " serves at " in ready, process.stderr.read()
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            process.communicate()
