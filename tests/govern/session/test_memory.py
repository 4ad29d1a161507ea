"""A process that keeps what it frees does not fetch it again from the system, page by page."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from processes import PATIENCE

PROGRAM = """
import resource
from modelkeep.govern.session.memory import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def rounds():
    before = faults()
    for _ in range(10):
        passed = [b"x" * (8 << 20) for _ in range(4)]
        del passed
    return faults() - before

rounds()
let_go = rounds()
keep_freed_memory()
rounds()
print(let_go, rounds())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told to keep freed memory")
def test_what_was_freed_is_there_for_the_next_pass() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=PATIENCE)
    let_go, kept = map(int, done.stdout.split())
    assert kept < let_go / 10
