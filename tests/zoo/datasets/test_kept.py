"""What is kept of a user's files is used as long as the files stay the same, and no longer."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from modelkeep.core.errors import DataError
from modelkeep.core.examples import Stored
from modelkeep.zoo import datasets
from modelkeep.zoo.datasets.kept import Kept, stamp, unpack_member

X = np.random.default_rng(0).normal(size=(9, 2))
Y = np.arange(9) % 2


def _write(folder: Path, save: Callable[..., None] = np.savez) -> Path:
    save(folder / "a.npz", x=X, y=Y)
    return folder / "a.npz"


def test_what_is_kept_is_found_by_the_next_process(tmp_path: Path) -> None:
    kept = Kept("a stamp", tmp_path)
    kept["question"] = "answer"
    kept["other"] = "answer"
    del kept["other"]
    assert dict(Kept("a stamp", tmp_path)) == {"question": "answer"}
    assert dict(Kept("another stamp", tmp_path)) == {}
    (tmp_path / "fingerprints" / "a stamp.json").write_text("damaged")
    assert dict(Kept("a stamp", tmp_path)) == {}


def test_a_stamp_knows_name_size_and_time(tmp_path: Path) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    for file in files:
        file.write_text("12")
        os.utime(file, (1, 1))
    stamps = [stamp(files), stamp(files[::-1]), stamp(files[:1])]
    os.utime(files[1], (1, 2))
    stamps.append(stamp(files))
    files[1].write_text("123")
    os.utime(files[1], (1, 1))
    stamps.append(stamp(files))
    assert len(set(stamps)) == 5


def test_a_member_is_unpacked_once(tmp_path: Path) -> None:
    path = _write(tmp_path, np.savez_compressed)
    unpacked = unpack_member(path, "x.npy", tmp_path)
    np.testing.assert_array_equal(np.load(unpacked), X)
    before = unpacked.stat().st_mtime_ns
    assert unpack_member(path, "x.npy", tmp_path) == unpacked
    assert unpacked.stat().st_mtime_ns == before


def test_a_fingerprint_is_kept_until_the_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _write(tmp_path)
    data = datasets.open(path, in_memory=0, cache=tmp_path)
    whole, some = data.fingerprint(), data.first(3).fingerprint()

    def refuse(*_: object) -> torch.Tensor:
        raise AssertionError("read again")

    with monkeypatch.context() as patch:
        patch.setattr(Stored, "load", refuse)
        again = datasets.open(path, in_memory=0, cache=tmp_path)
        assert (again.fingerprint(), again.first(3).fingerprint()) == (whole, some)
        with pytest.raises(AssertionError, match="read again"):
            again.first(4).fingerprint()
    np.savez(path, x=1 - X, y=Y)
    assert datasets.open(path, in_memory=0, cache=tmp_path).fingerprint() != whole


def test_a_cache_that_cannot_be_written_costs_time_only(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file stands where the folder should")
    data = datasets.open(_write(tmp_path), in_memory=0, cache=tmp_path / "cache")
    assert data.fingerprint() == datasets.open(tmp_path / "a.npz").fingerprint()
    with pytest.raises(DataError, match="Set MODELKEEP_CACHE to a folder of yours"):
        datasets.open(_write(tmp_path, np.savez_compressed), in_memory=0, cache=tmp_path / "cache")
