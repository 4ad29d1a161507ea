"""Compiled loops: what is kept on disk never outlives the source that it was made of."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from processes import PATIENCE

CALLEE = """
from modelkeep.guard.machine_code import compile_loop

@compile_loop
def inner(x):
    return x + {step}
"""
CALLER = """
from callee import inner
from modelkeep.guard.machine_code import compile_loop

@compile_loop
def outer(x):
    return inner(x)
"""
MAIN = """
import sys
from pathlib import Path
from modelkeep.guard import machine_code
folder = sys.argv[1]
machine_code.FOLDER = Path(folder)
sys.path.insert(0, folder)
from caller import outer
print(outer(1), len(outer.stats.cache_hits))
"""


def run(folder: Path) -> tuple[int, int]:
    told = subprocess.run(
        [sys.executable, "-c", MAIN, str(folder)], check=True, capture_output=True, text=True, timeout=PATIENCE
    ).stdout.split()
    return int(told[0]), int(told[1])


def test_a_loop_is_compiled_again_where_one_that_it_calls_has_changed(tmp_path: Path) -> None:
    """numba alone sees only changes to the caller's own file: its answer would stay 2."""
    (tmp_path / "caller.py").write_text(CALLER)
    (tmp_path / "callee.py").write_text(CALLEE.format(step=1))
    assert run(tmp_path) == (2, 0)
    assert run(tmp_path) == (2, 1)
    (tmp_path / "callee.py").write_text(CALLEE.format(step=10))
    assert run(tmp_path) == (11, 0)
