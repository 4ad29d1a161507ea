"""Mapped arrays hold what numpy reads, of every type, and what cannot be mapped is refused."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from modelkeep.core.errors import DataError
from modelkeep.zoo import datasets
from modelkeep.zoo.datasets.array_files import read_npy, read_safetensors
from modelkeep.zoo.datasets.kept import unpack_member
from modelkeep.zoo.datasets.mapped import Mapped, map_member, map_npy, map_safetensors, member_sizes

X = np.random.default_rng(0).integers(0, 256, (40, 3, 6), dtype=np.uint8)


def test_rows_are_numpys(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    mapped = pickle.loads(pickle.dumps(map_npy(tmp_path / "a.npy")))  # noqa: S301
    index = np.array([39, 0, 0, 7])
    np.testing.assert_array_equal(mapped.take(index), X[index])
    np.testing.assert_array_equal(mapped.take(slice(3, 9)), X[3:9])
    np.testing.assert_array_equal(mapped.all(), X)


def test_a_member_of_an_npz_stands_where_the_archive_says(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", y=np.arange(3), x=X)
    refused = map_member(tmp_path / "a.npz", "x", lambda path, member: sys.exit("unpacked"))
    np.testing.assert_array_equal(refused.all(), X)
    assert member_sizes(tmp_path / "a.npz")["x"] == (X.size, X.nbytes)


def test_an_empty_array(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X[:0])
    assert map_npy(tmp_path / "a.npy").all().shape == (0, 3, 6)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_what_was_read_is_not_kept(tmp_path: Path) -> None:
    def mapped_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[2]) * 4096  # shared pages: of files

    size = 2**28
    with (tmp_path / "large.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "|u1", "fortran_order": False, "shape": (size // 2**20, 2**20)}
        )
        file.truncate(file.tell() + size)
    mapped = map_npy(tmp_path / "large.npy")
    before = mapped_bytes()
    most = 0
    for row in range(size // 2**20):
        mapped.take(slice(row, row + 1))
        most = max(most, mapped_bytes() - before)
    assert most < size / 2


@pytest.mark.parametrize("dtype", ["f8", "f2", "i8", "u1", "?", ">f4"])
def test_every_type_of_number(tmp_path: Path, dtype: str) -> None:
    x = np.random.default_rng(0).integers(0, 2, (9, 4)).astype(dtype)
    np.save(tmp_path / "x_train.npy", x)
    np.save(tmp_path / "y_train.npy", np.arange(9) % 2)
    stored, memory = (datasets.open(tmp_path / "x_train.npy", in_memory=n, cache=tmp_path) for n in (0, 10**9))
    assert stored.y.tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0]
    assert stored.fingerprint() == memory.fingerprint()
    np.testing.assert_array_equal(stored.x.numpy(), x.astype(np.float32))


def test_files_that_cannot_be_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.asfortranarray(np.ones((5, 3))))
    with pytest.raises(DataError, match=r"Fortran order.*np\.ascontiguousarray"):
        read_npy(tmp_path / "f.npy", in_memory=0)
    np.save(tmp_path / "o.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(DataError, match="pickles"):
        read_npy(tmp_path / "o.npy")
    whole = io.BytesIO()
    np.save(whole, X)
    (tmp_path / "cut.npy").write_bytes(whole.getvalue()[:-10])
    with pytest.raises(DataError, match="ends before its array"):
        read_npy(tmp_path / "cut.npy")
    (tmp_path / "d.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0 and no JSON ...")
    with pytest.raises(DataError, match="cannot be read as safetensors"):
        read_safetensors(tmp_path / "d.safetensors")


def open_large(tmp_path: Path) -> tuple[Path, Mapped]:
    """A file of eight megabytes, in use."""
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((64, 2**17), np.uint8))
    mapped = map_npy(path)
    assert mapped.take(slice(0, 2)).sum() == 0
    return path, mapped


@pytest.mark.parametrize(
    "change",
    [
        "import os, sys; os.truncate(sys.argv[1], 4096)",
        "import sys; file = open(sys.argv[1], 'r+b'); file.seek(2**20); file.write(bytes([1]) * 2**20)",
        "import sys; import numpy; numpy.save(sys.argv[1], numpy.ones((64, 2**17), numpy.uint8))",
    ],
    ids=["made shorter", "written over", "replaced"],
)
def test_a_file_that_another_process_changes_is_refused_and_nobody_dies(tmp_path: Path, change: str) -> None:
    path, mapped = open_large(tmp_path)
    subprocess.run([sys.executable, "-c", change, str(path)], check=True)
    for index in (slice(0, 64), np.array([3, 60])):
        with pytest.raises(DataError, match=r"was changed while it was in use.*Open the data again"):
            mapped.take(index)
    copied = pickle.loads(pickle.dumps(mapped)) if path.stat().st_size > 2**20 else None  # noqa: S301 - our own
    if copied is not None:
        with pytest.raises(DataError, match="was changed"):  # a worker is told the same
            copied.take(slice(0, 1))


def write_header(path: Path, shape: tuple[int, ...], descr: str = "<f8") -> None:
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})


def test_a_huge_declared_shape_takes_no_memory(tmp_path: Path) -> None:
    write_header(tmp_path / "x.npy", (10**9, 10**6))
    with pytest.raises(DataError, match="ends before its array"):
        map_npy(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", np.zeros((4, 2)))
    write_header(tmp_path / "y.npy", (10**12,))
    with pytest.raises(DataError, match="ends before its array"):
        datasets.open(tmp_path / "x.npy")
    write_header(tmp_path / "x.npy", (-4, -2))
    with pytest.raises(DataError, match="which there cannot be"):
        map_npy(tmp_path / "x.npy")
    with zipfile.ZipFile(tmp_path / "data.npz", "w") as archive:
        for name in ("x", "y"):
            write_header(tmp_path / "member", (10**12,))
            archive.write(tmp_path / "member", f"{name}.npy")
    with pytest.raises(DataError, match=r"declares an array of float64 .* but holds 0 bytes"):
        datasets.open(tmp_path / "data.npz")


def test_an_archive_that_unpacks_to_more_than_memory_holds_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    """Zeros that take a thousandth of their size; the limit is lowered, so that the test need not pack gigabytes."""
    monkeypatch.setattr("modelkeep.zoo.datasets.array_files._MOST_BESIDE", 2**20)
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("y.npy", "w", force_zip64=True) as file:
            np.lib.format.write_array_header_1_0(file, {"descr": "|i1", "fortran_order": False, "shape": (2**24,)})
            file.write(bytes(2**24))
        with archive.open("x.npy", "w") as file:
            np.lib.format.write_array(file, np.zeros((3, 2)))
    assert path.stat().st_size < 2**18
    with pytest.raises(DataError, match=r"'y' of 16,777,216 bytes\. Only 'x'"):
        datasets.open(path, in_memory=0)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as file:
        np.lib.format.write_array(file, np.zeros((2**20, 2)))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=2**20))
    with pytest.raises(DataError, match=r"unpacks to 16,777,.* has 1,048,576 left"):
        unpack_member(path, "x.npy", cache=tmp_path / "cache")


def test_a_header_of_safetensors_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes((2**40).to_bytes(8, "little") + b"{}")
    with pytest.raises(DataError, match="its header is longer than the file"):
        map_safetensors(path)
    with path.open("wb") as file:
        file.write((2**32).to_bytes(8, "little"))
        file.truncate(2**33)  # eight gigabytes that are not there
    with pytest.raises(DataError, match=r"its header of 4,294,967,296 bytes is too long"):
        map_safetensors(path)
    deep = b'{"x": ' + b"[" * 100_000
    path.write_bytes(len(deep).to_bytes(8, "little") + deep)
    with pytest.raises(DataError, match="cannot be read as safetensors: RecursionError"):
        map_safetensors(path)
    huge = b'{"x": {"dtype": "F32", "shape": [1000000, 1000000], "data_offsets": [0, 4]}}'
    path.write_bytes(len(huge).to_bytes(8, "little") + huge + bytes(4))
    with pytest.raises(DataError, match="ends before its array"):
        map_safetensors(path)
