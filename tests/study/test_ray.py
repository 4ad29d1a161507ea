"""The same study on Ray gives the same ledger. Ray listens on the machine's address: it gets a network of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from modelkeep.core.errors import InputError, MissingExtra
from modelkeep.study import Ledger, Local, Ray, Study, grid, run

HERE = Path(__file__).parent
LOOPBACK_ONLY = ["unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]

SCRIPT = """
import sys
from modelkeep.study import Ledger, Limits, Ray, Study, grid, run

trials = [*grid("trials:noise", {"x": [0, 1]}, seeds=[0, 1]), *grid("trials:dies", {"how": ["exit"]}),
          *grid("trials:hangs", {"x": [0]})]
with Ledger(sys.argv[1]) as ledger:
    print(run(Study("both", trials), ledger, Ray(), limits=Limits(seconds=10), retries=0).to_json())
"""


def loopback_only() -> bool:
    """Whether this machine lets us make a network that has only loopback."""
    if not shutil.which("unshare") or not shutil.which("ip"):
        return False
    return subprocess.run([*LOOPBACK_ONLY, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not loopback_only(), reason="needs unshare and ip, and the right to make a network namespace")
def test_ray_gives_the_same_ledger(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("ray")
    short = tempfile.mkdtemp(dir="/tmp")  # a socket's path may not be longer than 107 bytes
    request.addfinalizer(lambda: shutil.rmtree(short))
    # HOME too, because Ray leaves its token there.
    environment = {**os.environ, "PYTHONPATH": str(HERE), "RAY_TMPDIR": short, "HOME": short}
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    path = tmp_path / "ray" / "ledger.sqlite3"
    done = subprocess.run(
        [*LOOPBACK_ONLY, sys.executable, script, path], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    on_ray = json.loads(done.stdout.splitlines()[-1])["records"]
    noise = grid("trials:noise", {"x": [0, 1]}, seeds=[0, 1])
    with Ledger(tmp_path / "local.sqlite3") as ledger:
        here = run(Study("both", noise), ledger, Local(threads=1))
    assert [r["identity"] for r in on_ray[:4]] == [r.identity for r in here.records]
    assert [r["value"] for r in on_ray[:4]] == here.values()
    assert [(r["state"], r["attempts"]) for r in on_ray[4:]] == [("crashed", 1), ("timeout", 1)]
    assert "with exit code 3" in on_ray[4]["error"]
    with Ledger(path, create=False) as ledger:
        assert ledger.counts("both") == {"done": 4, "crashed": 1, "timeout": 1}


def test_without_ray_the_extra_is_named(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"modelkeep\[scale\]"):
        run(Study("a", grid("trials:square", {"x": [1]})), ledger, Ray())
    with pytest.raises(InputError, match="'threads' parameter of Ray"):
        Ray(threads=0)
