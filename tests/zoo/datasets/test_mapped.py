"""Mapped arrays hold what numpy reads, of every type, and what cannot be mapped is refused."""

from __future__ import annotations

import io
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from modelkeep.core.errors import DataError
from modelkeep.zoo import datasets
from modelkeep.zoo.datasets.array_files import read_npy, read_safetensors
from modelkeep.zoo.datasets.mapped import map_member, map_npy, member_size

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
    assert member_size(tmp_path / "a.npz", "x") == X.size
    assert member_size(tmp_path / "a.npz", "z") == 0


def test_an_empty_array(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X[:0])
    assert map_npy(tmp_path / "a.npy").all().shape == (0, 3, 6)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_pages_that_were_read_are_given_back(tmp_path: Path) -> None:
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
