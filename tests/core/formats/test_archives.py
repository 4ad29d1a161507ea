"""Archives that unpack to more than they are, and tensors that repeat themselves, are refused before memory is used."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

from modelkeep import Model
from modelkeep.core.conversion import read_state_dict
from modelkeep.core.errors import ModelError


def pack(path: Path) -> Path:
    """The same archive with its parts compressed."""
    packed = path.with_name(f"packed-{path.name}")
    with zipfile.ZipFile(path) as plain, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as made:
        for member in plain.infolist():
            made.writestr(member.filename, plain.read(member))
    return packed


def test_a_state_dict_that_unpacks_to_more_than_it_is(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(2**22)}, tmp_path / "w.pt")
    assert read_state_dict(tmp_path / "w.pt")["weight"].shape == (2**22,)
    with pytest.raises(ModelError, match=r"has [\d,]+ bytes and unpacks to 16,77"):
        read_state_dict(pack(tmp_path / "w.pt"))


def test_a_tensor_that_repeats_one_number_to_terabytes(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(1).expand(10**6, 10**6)}, tmp_path / "w.pt")
    with pytest.raises(ModelError, match=r"'weight' in .* is of shape \(1000000, 1000000\), but holds 4 bytes"):
        read_state_dict(tmp_path / "w.pt")


def test_an_exported_program_that_unpacks_to_more_than_it_is(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    torch.nn.init.zeros_(network[1].weight)  # type: ignore[arg-type]
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(network, (torch.rand(2, 1, 8, 8),), dynamic_shapes=({0: batch},))
    torch.export.save(program, tmp_path / "n.pt2")
    assert Model.load(tmp_path / "n.pt2").classes == tuple(map(str, range(10)))
    with pytest.raises(ModelError, match="without compression"):
        Model.load(pack(tmp_path / "n.pt2"))
