"""An integer layer under TFHE gives the integer network's bits; without the environment a sentence says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from modelkeep.core.errors import EncryptError, InputError
from modelkeep.encrypt.integers import tfhe, tfhe_worker
from modelkeep.encrypt.integers.network import Encoder, IntegerLayer, IntegerNetwork
from modelkeep.encrypt.integers.ring import Ring
from modelkeep.encrypt.integers.table import Table


def network(bits: int) -> IntegerNetwork:
    table = Table.of(lambda sums: sums.clamp(0, 3), bits)
    first = IntegerLayer(torch.tensor([[1, -1, 1]]), torch.tensor([-1]), table)
    second = IntegerLayer(torch.tensor([[1], [-2]]), torch.tensor([0, 1]))
    return IntegerNetwork(Encoder(torch.zeros(3), torch.ones(3), 3), (first, second), Ring(bits))


def test_two_layers_bit_for_bit() -> None:
    try:
        tfhe.find_environment()
    except tfhe.NoTFHE as missing:
        pytest.skip(str(missing))
    rows = torch.tensor([[3, 0, 3], [0, 3, 0], [2, 1, 1]])
    found = tfhe.run_encrypted(network(4), rows)
    assert found.exact
    assert found.scores.tolist() == [[3, -5], [0, 1], [1, -1]]  # by hand: relu(x1 - x2 + x3 - 1), at most 3
    assert found.bootstraps == 1


def test_the_worker_needs_nothing_of_modelkeep() -> None:
    assert Path(tfhe_worker.__file__) == tfhe.WORKER
    imported = [line for line in tfhe.WORKER.read_text().splitlines() if "import" in line.split()[:3]]
    assert not any("modelkeep" in line or "torch" in line for line in imported)
    assert any("concrete" in line for line in imported)


def test_a_missing_environment_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(tfhe.VARIABLE, str(tmp_path))
    with pytest.raises(tfhe.NoTFHE, match="make tfhe"):
        tfhe.run_encrypted(network(4), torch.tensor([[1, 1, 1]]))


def test_a_worker_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text("#!/bin/sh\necho out of memory >&2\nexit 3\n")
    python.chmod(0o755)
    monkeypatch.setenv(tfhe.VARIABLE, str(tmp_path))
    with pytest.raises(EncryptError, match="ended with code 3: out of memory"):
        tfhe.run_encrypted(network(4), torch.tensor([[1, 1, 1]]))


def test_what_tfhe_cannot_do_is_refused_first() -> None:
    with pytest.raises(InputError, match="at most 8 bits"):
        tfhe.run_encrypted(network(9), torch.tensor([[1, 1, 1]]))
    with pytest.raises(InputError, match="may leave its ring"):
        tfhe.run_encrypted(network(3), torch.tensor([[1, 1, 1]]))
    with pytest.raises(InputError, match="no row"):
        tfhe.run_encrypted(network(4), torch.zeros(0, 3, dtype=torch.int64))
