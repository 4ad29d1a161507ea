"""Members of archives: tar, zip, Debian packages, their compressions, and names that try to get out."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from modelkeep.core.errors import DataError
from modelkeep.zoo.datasets.archives import decompress, join_members, unpack_member

CONTENT = b"content " * 500


def _tar_bytes(name: str, content: bytes, mode: str) -> bytes:
    out = BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as packed:  # type: ignore[call-overload]
        info = tarfile.TarInfo(name)
        info.size = len(content)
        packed.addfile(info, BytesIO(content))
    return out.getvalue()


def _debian(data: bytes, name: str = "data.tar.xz") -> bytes:
    """An ar archive as dpkg-deb writes it, with a member of odd length before the data."""
    out = b"!<arch>\n"
    for title, body in (("debian-binary", b"2.0\n"), ("control.tar.xz", b"odd"), (name, data)):
        out += f"{title:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(body):<10}`\n".encode() + body
        out += b"\n" * (len(body) % 2)
    return out


def _unpacked(path: Path, name: str) -> bytes:
    out = BytesIO()
    unpack_member(name)(path, out)
    return out.getvalue()


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_tar(tmp_path: Path, mode: str) -> None:
    (tmp_path / "a").write_bytes(_tar_bytes("./in/a.txt", CONTENT, mode))
    assert _unpacked(tmp_path / "a", "in/a.txt") == CONTENT


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_member_comes_without_compression(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as packed:
        packed.writestr("a.rda", compress(CONTENT))
    assert _unpacked(tmp_path / "a.whl", "a.rda") == CONTENT
    (tmp_path / "b").write_bytes(compress(CONTENT))
    out = BytesIO()
    decompress(tmp_path / "b", out)
    assert out.getvalue() == CONTENT


@pytest.mark.parametrize(("name", "mode"), [("data.tar.xz", "w:xz"), ("data.tar.gz", "w:gz"), ("data.tar", "w")])
def test_debian_package(tmp_path: Path, name: str, mode: str) -> None:
    (tmp_path / "a.deb").write_bytes(_debian(_tar_bytes("./usr/share/a", CONTENT, mode), name))
    assert _unpacked(tmp_path / "a.deb", "usr/share/a") == CONTENT


def test_debian_package_that_is_cut_off(tmp_path: Path) -> None:
    (tmp_path / "a.deb").write_bytes(_debian(_tar_bytes("a", CONTENT, "w:xz"))[:150])
    with pytest.raises(DataError, match="Debian package"):
        _unpacked(tmp_path / "a.deb", "a")


@pytest.mark.parametrize("cut", [0.5, 0.95])
def test_a_tar_that_is_cut_off(tmp_path: Path, cut: float) -> None:
    body = _tar_bytes("a", bytes(range(256)) * 4000, "w:gz")
    (tmp_path / "a.tgz").write_bytes(body[: int(len(body) * cut)])
    with pytest.raises(DataError, match="damaged"):
        _unpacked(tmp_path / "a.tgz", "a")


def test_something_else_entirely(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"<html>not found</html>")
    with pytest.raises(DataError, match="not an archive"):
        _unpacked(tmp_path / "a", "a")


def test_a_member_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(_tar_bytes("in/a.txt", CONTENT, "w:gz"))
    with pytest.raises(DataError, match=r"does not hold 'in/b.txt'"):
        _unpacked(tmp_path / "a", "in/b.txt")


def test_links_are_not_followed(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as packed:
        link = tarfile.TarInfo("a.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        packed.addfile(link)
    with pytest.raises(DataError, match=r"does not hold 'a.txt'"):
        _unpacked(tmp_path / "a.tar", "a.txt")


def test_nothing_is_ever_written_where_a_member_says(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "a.tar").write_bytes(_tar_bytes("../escaped", CONTENT, "w"))
    assert _unpacked(inside / "a.tar", "../escaped") == CONTENT
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.tar", "inside"]


def test_pieces_are_joined_in_the_order_that_was_asked_for(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as packed:
        for name in ("b", "a", "c"):
            info = tarfile.TarInfo(name)
            info.size = 2
            packed.addfile(info, BytesIO(name.encode() * 2))
    out = BytesIO()
    join_members(["a", "b"])(tmp_path / "a.tgz", out)
    assert out.getvalue() == b"aabb"
    with pytest.raises(DataError, match=r"a\.tgz does not hold 'd'"):
        join_members(["a", "d"])(tmp_path / "a.tgz", BytesIO())
    (tmp_path / "b.tgz").write_bytes((tmp_path / "a.tgz").read_bytes()[:40])
    with pytest.raises(DataError, match="damaged"):
        join_members(["a"])(tmp_path / "b.tgz", BytesIO())
