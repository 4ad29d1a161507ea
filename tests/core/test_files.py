"""A file is replaced whole or not at all, and what killed writers leave is swept up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from modelkeep.core.files import replace_file


def test_an_exception_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail() -> None:
        with replace_file(path) as unfinished:
            unfinished.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_the_mode_of_the_old_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o640)
    with replace_file(path) as unfinished:
        unfinished.write_text("new")
    assert path.stat().st_mode & 0o777 == 0o640
    assert path.read_text() == "new"


def test_a_killed_writer_leaves_the_old_content_and_is_swept_up_after(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    code = (
        "import sys, time; from pathlib import Path; from modelkeep.core.files import replace_file\n"
        "with replace_file(Path(sys.argv[1])) as unfinished:\n"
        "    unfinished.write_text('half'); print('writing', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        with replace_file(path) as unfinished:  # another writer's file is its own as long as it lives
            unfinished.write_text("mine")
        assert path.read_text() == "mine"
        assert len(os.listdir(tmp_path)) == 2
        writer.send_signal(signal.SIGKILL)
    assert path.read_text() == "mine"
    with replace_file(path) as unfinished:
        unfinished.write_text("new")
    assert os.listdir(tmp_path) == ["file"]
    assert path.read_text() == "new"
