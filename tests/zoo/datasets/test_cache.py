"""The cache: only the right content gets in, from whichever source gives it, once for all processes."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
import tarfile
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from modelkeep.core.errors import DataError
from modelkeep.zoo.datasets import cache, download
from modelkeep.zoo.datasets.archives import copy_whole, decompress, unpack_member
from modelkeep.zoo.datasets.dataset import File, Source

CONTENT = b"the right content\n" * 1000
RIGHT = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


def _tar(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as packed:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            packed.addfile(info, BytesIO(content))
    return path


def test_it_is_fetched_once_and_then_read_from_disk(site: Any, tmp_path: Path) -> None:
    site.pages["/a.gz"] = gzip.compress(CONTENT)
    file = File("a", RIGHT, (Source(f"{site.address}/a.gz", decompress),))
    for _ in range(2):
        assert cache.fetch("set", [file], cache=tmp_path)["a"].read_bytes() == CONTENT
    assert len(site.asked) == 1
    assert not (tmp_path / "set" / "downloads").exists()


def test_wrong_content_is_refused_and_removed(site: Any, tmp_path: Path) -> None:
    site.pages["/a"] = CONTENT.replace(b"right", b"wrong")
    file = File("a", RIGHT, (Source(f"{site.address}/a", copy_whole),))
    with pytest.raises(DataError, match=f"Expected {RIGHT}, got sha256:") as caught:
        cache.fetch("set", [file], cache=tmp_path)
    assert "modelkeep data get set --from PATH" in str(caught.value)
    assert [path.name for path in (tmp_path / "set").rglob("*") if path.is_file() and path.name != "lock"] == []


def test_a_damaged_archive_is_refused_and_fetched_anew_the_next_time(site: Any, tmp_path: Path) -> None:
    whole_archive = _tar(tmp_path / "a.tgz", {"inside/a": CONTENT}).read_bytes()
    file = File("a", RIGHT, (Source(f"{site.address}/a.tgz", unpack_member("inside/a")),))
    site.pages["/a.tgz"] = whole_archive[: len(whole_archive) // 2]
    with pytest.raises(DataError, match="damaged"):
        cache.fetch("set", [file], cache=tmp_path)
    site.pages["/a.tgz"] = whole_archive
    assert cache.fetch("set", [file], cache=tmp_path)["a"].read_bytes() == CONTENT


def test_the_next_source_is_asked_when_one_fails(site: Any, tmp_path: Path) -> None:
    site.pages["/wrong"] = b"wrong"
    site.pages["/right"] = CONTENT
    addresses = [f"{site.address}/missing", f"{site.address}/wrong", f"{site.address}/right"]
    file = File("a", RIGHT, tuple(Source(address, copy_whole) for address in addresses))
    assert cache.fetch("set", [file], cache=tmp_path)["a"].read_bytes() == CONTENT


def test_all_failures_are_told(site: Any, tmp_path: Path) -> None:
    site.pages["/wrong"] = b"wrong"
    sources = (Source(f"{site.address}/missing", copy_whole), Source(f"{site.address}/wrong", copy_whole))
    with pytest.raises(DataError, match=r"(?s)/missing: .*404.*/wrong: .*Expected"):
        cache.fetch("set", [File("a", RIGHT, sources)], cache=tmp_path)


def test_a_dead_host_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counting(where: str, target: Path) -> None:
        asked.append(where)
        download.bring(where, target)

    monkeypatch.setattr(cache, "bring", counting)
    dead = [Source(f"http://127.0.0.1:9/{name}", copy_whole) for name in "ab"]
    with pytest.raises(DataError, match=r"(?s)9/a: the connection failed.*9/b: the connection failed"):
        cache.fetch("set", [File("a", RIGHT, tuple(dead))], cache=tmp_path)
    assert asked == ["http://127.0.0.1:9/a"]


def test_files_that_share_an_archive_download_it_once(site: Any, tmp_path: Path) -> None:
    site.pages["/a.tgz"] = _tar(tmp_path / "a.tgz", {"a": CONTENT, "b": CONTENT}).read_bytes()
    files = [File(name, RIGHT, (Source(f"{site.address}/a.tgz", unpack_member(name)),)) for name in "ab"]
    cache.fetch("set", files, cache=tmp_path)
    assert len(site.asked) == 1


def test_a_damaged_cache_heals_itself(site: Any, tmp_path: Path) -> None:
    site.pages["/a"] = CONTENT
    file = File("a", RIGHT, (Source(f"{site.address}/a", copy_whole),))
    path = cache.fetch("set", [file], cache=tmp_path)["a"]
    path.write_bytes(CONTENT[:-1])
    assert cache.fetch("set", [file], cache=tmp_path)["a"].read_bytes() == CONTENT


def test_published_md5_is_checked_too(site: Any, tmp_path: Path) -> None:
    site.pages["/a"] = CONTENT
    right = File("a", f"md5:{hashlib.md5(CONTENT).hexdigest()}", (Source(f"{site.address}/a", copy_whole),))
    assert cache.fetch("set", [right], cache=tmp_path)["a"].read_bytes() == CONTENT
    wrong = File("b", f"md5:{hashlib.md5(b'').hexdigest()}", (Source(f"{site.address}/a", copy_whole),))
    with pytest.raises(DataError, match="Expected md5:"):
        cache.fetch("set", [wrong], cache=tmp_path)


@pytest.mark.parametrize("kind", ["file", "gz", "tar", "zip", "folder", "folder with archive"])
def test_a_copy_of_ones_own(tmp_path: Path, kind: str) -> None:
    file = File("a.bin", RIGHT, (Source("https://nowhere.invalid/set.tgz", unpack_member("inside/a.bin")),))
    copy = tmp_path / "copy"
    if kind == "file":
        copy.write_bytes(CONTENT)
    elif kind == "gz":
        copy.write_bytes(gzip.compress(CONTENT))
    elif kind == "tar":
        _tar(copy, {"inside/a.bin": CONTENT})
    elif kind == "zip":
        with zipfile.ZipFile(copy, "w") as packed:
            packed.writestr("inside/a.bin", CONTENT)
    else:
        (copy / "deeper").mkdir(parents=True)
        if kind == "folder":
            (copy / "deeper" / "a.bin").write_bytes(CONTENT)
        else:
            _tar(copy / "set.tgz", {"inside/a.bin": CONTENT})
    assert cache.fetch("set", [file], cache=tmp_path / "cache", copy=copy)["a.bin"].read_bytes() == CONTENT


def test_a_wrong_copy_is_refused(tmp_path: Path) -> None:
    (tmp_path / "copy").write_bytes(b"something else")
    with pytest.raises(DataError, match=r"no right copy of the file 'a'(?s:.*)Expected"):
        cache.fetch("set", [File("a", RIGHT)], cache=tmp_path / "cache", copy=tmp_path / "copy")


def test_a_folder_without_it_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Looked for a, a.gz"):
        cache.fetch("set", [File("a", RIGHT)], cache=tmp_path / "cache", copy=tmp_path)


def test_a_set_without_an_address_says_how_to_bring_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"(?s)no address.*--from PATH, where PATH is a folder with a, b"):
        cache.fetch("set", [File("a", RIGHT), File("b", RIGHT)], cache=tmp_path)


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match="Set MODELKEEP_CACHE"):
        cache.fetch("set", [File("a", RIGHT)], cache=tmp_path / "file")


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MODELKEEP_CACHE", raising=False)
    assert cache.folder() == tmp_path / ".cache" / "modelkeep"
    monkeypatch.setenv("MODELKEEP_CACHE", str(tmp_path / "elsewhere"))
    assert cache.folder() == tmp_path / "elsewhere"
    assert cache.folder(tmp_path / "given") == tmp_path / "given"


def test_processes_at_the_same_time_fetch_once(site: Any, tmp_path: Path) -> None:
    site.pages["/a"] = CONTENT
    code = (
        "import sys; from modelkeep.zoo.datasets import cache; from modelkeep.zoo.datasets.archives import copy_whole\n"
        "from modelkeep.zoo.datasets.dataset import File, Source\n"
        "cache.fetch('set', [File('a', sys.argv[1], (Source(sys.argv[2], copy_whole),))], cache=sys.argv[3])"
    )
    command = [sys.executable, "-c", code, RIGHT, f"{site.address}/a", str(tmp_path)]
    with subprocess.Popen(command) as one, subprocess.Popen(command) as other:
        pass  # it ends when both have ended
    assert (one.returncode, other.returncode) == (0, 0)
    assert len(site.asked) == 1
