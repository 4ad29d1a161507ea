"""Files as torch and pickle write them, a signature, rights and damaged weights are told apart."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.audit.hygiene import CheckHygiene

DATA = Data(torch.rand(4, 3), torch.zeros(4).long(), ("0", "1"))


def linear() -> Model:
    return Model(nn.Linear(3, 2), input_shape=(3,), classes=2)


def ids(file: Path | None, model: Model | None = None) -> set[str]:
    section = CheckHygiene(file=file)(model or linear(), DATA)
    return {finding.id.removeprefix("hygiene.") for finding in section.findings}


@pytest.fixture
def safe(tmp_path: Path) -> Path:
    from safetensors.torch import save_file

    save_file(linear().module.state_dict(), tmp_path / "model.safetensors")
    os.chmod(tmp_path / "model.safetensors", 0o644)
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize(
    "write",
    [
        lambda path: torch.save(nn.Linear(3, 2).state_dict(), path),
        lambda path: torch.save(nn.Linear(3, 2), path),
        lambda path: path.write_bytes(pickle.dumps({"a": 1})),
    ],
)
def test_a_pickle_is_named_whatever_it_is_called(tmp_path: Path, write: Callable[[Path], object]) -> None:
    write(tmp_path / "model.bin")
    assert "pickle" in ids(tmp_path / "model.bin")


def test_a_safe_file_is_unsigned_until_it_is_signed_and_is_never_green_unchecked(safe: Path) -> None:
    section = CheckHygiene(file=safe)(linear(), DATA)
    assert hashlib.sha256(safe.read_bytes()).hexdigest() in section.lead
    assert ids(safe) == {"unsigned"}
    safe.with_name(safe.name + ".sig").write_text("signed")
    (finding,) = CheckHygiene(file=safe)(linear(), DATA).findings
    assert (finding.id, finding.status) == ("hygiene.signature-beside", "inconclusive")


def test_rights_and_damage_are_seen(safe: Path) -> None:
    os.chmod(safe, 0o666)
    damaged = linear()
    with torch.no_grad():
        next(damaged.module.parameters())[0, 0] = torch.nan
    assert ids(safe, damaged) == {"world-writable", "damaged-weights", "unsigned"}
    assert ids(None) == {"no-file"}
