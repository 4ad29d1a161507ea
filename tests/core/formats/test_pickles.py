"""Pickles are told apart by their content, under any name, and without running them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import save_file
from torch import nn

from core.formats.foreign import network, write_estimators, write_files
from modelkeep.core.formats.pickles import Pickle, recognise


def test_what_torch_writes_is_told_apart(tmp_path: Path) -> None:
    for name, kind in write_files(tmp_path, network(tmp_path)).items():
        renamed = (tmp_path / name).rename(tmp_path / "model.safetensors")
        found = recognise(renamed)
        assert found is not None, name
        assert found.kind == kind, name
        assert found.owner == (None if kind == "state dict" else "owners_network:Network"), name
        assert found.loader == ("pickle" if name == "plain.pkl" else "torch"), name


def test_estimators_are_told_through_their_compression(tmp_path: Path) -> None:
    for name, loader in write_estimators(tmp_path).items():
        assert recognise(tmp_path / name) == Pickle("object", loader, "sklearn.pipeline:Pipeline"), name  # type: ignore[arg-type]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_no_protocol_runs_what_it_holds(protocol: int, tmp_path: Path) -> None:
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(_Trap(tmp_path / "ran"), protocol))
    found = recognise(tmp_path / "m.pkl")
    assert found is not None
    assert found.owner in ("pathlib.Path:touch", "__builtin__:getattr", "builtins:getattr")
    assert not (tmp_path / "ran").exists()


def test_what_is_no_pickle_is_none(tmp_path: Path) -> None:
    save_file(nn.Linear(2, 2).state_dict(), tmp_path / "m.safetensors")
    np.savez(tmp_path / "m.npz", x=np.zeros(3))
    (tmp_path / "m.txt").write_text("PK, but no archive")
    (tmp_path / "empty").touch()
    for path in tmp_path.iterdir():
        assert recognise(path) is None, path
    assert recognise(tmp_path / "nothing") is None


class _Trap:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)
