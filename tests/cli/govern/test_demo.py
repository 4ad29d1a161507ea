"""`modelkeep govern demo`: the story with its two processes, and that Bob's ends with it, whatever ends it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from cli.governed import MAIN
from cli.running import Run
from modelkeep.cli.govern.demo import REASON
from modelkeep.govern import read_ledger


@pytest.fixture
def threads() -> Iterator[None]:
    """The demo takes one thread for itself, as in a process of its own."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
def test_the_story_holds(modelkeep: Run, tmp_path: Path) -> None:
    ran = modelkeep("govern", "demo", "--data", "digits", "--out", "demo", "--json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    assert 120 <= told["withdrawn_after"] < told["updates"] == 240
    assert REASON in told["reason"]
    assert told["accuracy"] > 0.9
    assert told["alone"] < 0.3
    assert told["findings"] == 0
    assert any(finding.startswith("rewritten: alice") for finding in told["forged_findings"])
    for party in ("alice", "bob"):
        assert read_ledger(tmp_path / "demo" / party / "ledger.sqlite3").committed == told["passes"]
    refused = [event.text for event in read_ledger(tmp_path / "demo" / "bob" / "ledger.sqlite3").events()]
    assert any("withdrawn its consent to infer" in text for text in refused)
    again = modelkeep("govern", "demo", "--data", "digits", "--out", "demo")
    assert "not empty" in again.err


@pytest.mark.skipif(sys.platform != "linux", reason="looks for a process that is not its child in /proc")
def test_bob_does_not_outlive_a_demo_that_is_killed(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-c", MAIN, "govern", "demo", "--data", "digits", "--out", str(tmp_path / "demo")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert demo.stdout is not None
        bob = next(int(found[1]) for line in demo.stdout if (found := re.search(r"Bob serves in process (\d+)", line)))
        assert _runs(bob)
    finally:
        demo.kill()
        demo.communicate()
    patience = time.monotonic() + 20
    while _runs(bob):
        assert time.monotonic() < patience, "Bob's process is still there"
        time.sleep(0.05)


def _runs(process: int) -> bool:
    """Whether the process is there and not only waits to be reaped."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
