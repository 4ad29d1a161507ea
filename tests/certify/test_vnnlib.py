"""Properties in VNN-LIB: what is written is read back, what others write is read, and what is decided is true."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from certify.networks import exactly, model_of
from modelkeep.certify import Certify
from modelkeep.certify.vnnlib import decide, read_property, write_property
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError

# As ACAS Xu's property 3 is written: numbers among the outputs, and several comparisons that must hold together.
TOGETHER = """
(declare-const X_0 Real) (declare-const X_1 Real) ; the inputs
(declare-const Y_0 Real) (declare-const Y_1 Real) (declare-const Y_2 Real)
(assert (<= X_0 1.0)) (assert (>= X_0 0.0))
(assert (<= X_1 0.5)) (assert (>= X_1 0.25))
(assert (<= Y_0 Y_1))
(assert (or (and (<= Y_0 Y_2) (>= Y_1 3.5)) (and (<= 4.0 Y_2))))
"""


def small(seed: int = 0) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(4, 10), nn.ReLU(), nn.Linear(10, 3))


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    x = torch.rand(2, 2, generator=torch.Generator().manual_seed(0))
    found = read_property(write_property(tmp_path / "p.vnnlib", x, 0.3, 1, 3, (0.0, 1.0)))
    torch.testing.assert_close(found.low, (x.double().flatten() - 0.3).clamp(0, 1), rtol=0, atol=1e-15)
    torch.testing.assert_close(found.high, (x.double().flatten() + 0.3).clamp(0, 1), rtol=0, atol=1e-15)
    assert [rows.tolist() for rows, _ in found.unsafe] == [[[-1.0, 1.0, 0.0]], [[0.0, 1.0, -1.0]]]
    assert all(limits.tolist() == [0.0] for _, limits in found.unsafe)


def test_what_others_write_is_read(tmp_path: Path) -> None:
    (tmp_path / "p.vnnlib").write_text(TOGETHER)
    found = read_property(tmp_path / "p.vnnlib")
    assert (found.low.tolist(), found.high.tolist()) == ([0.0, 0.25], [1.0, 0.5])
    (first, limits), (second, others) = found.unsafe
    assert first.tolist() == [[1.0, -1.0, 0.0], [1.0, 0.0, -1.0], [0.0, -1.0, 0.0]]
    assert limits.tolist() == [0.0, 0.0, -3.5]
    assert second.tolist() == [[1.0, -1.0, 0.0], [0.0, 0.0, -1.0]]
    assert others.tolist() == [0.0, -4.0]


NOT_READ = {
    "nothing": "",
    "no outputs": "(assert (<= X_0 1.0))",
    "an input without an end": TOGETHER.replace("(assert (<= X_0 1.0))", ""),
    "an equation": TOGETHER.replace("<= Y_0 Y_1", "= Y_0 Y_1"),
}


@pytest.mark.parametrize("text", NOT_READ.values(), ids=NOT_READ)
def test_what_is_not_read_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.vnnlib").write_text(text)
    with pytest.raises(InputError, match="not a property that can be read"):
        read_property(tmp_path / "p.vnnlib")


@pytest.mark.parametrize("seed", range(3))
def test_decisions_are_true_and_those_of_certify(tmp_path: Path, seed: int) -> None:
    """Within the certified radius it holds; a violation is an input of the box where another class is on top."""
    model = model_of(small(seed), 4)
    x = torch.rand(4, 4, generator=torch.Generator().manual_seed(seed))
    labels = model.predict(x)
    data = Data(x, labels, model.classes, bounds=None)
    radii = Certify(radius=0.1, norm="linf", relaxation=True)(model, data, seed=0).radii.tolist()
    found = []
    for one, label, radius in zip(x, labels.tolist(), radii, strict=True):
        for share in (0.99, 1.3, 3.0, 30.0):
            path = write_property(tmp_path / "p.vnnlib", one, radius * share, label, 3)
            decision, witness = decide(model, read_property(path))
            found.append(decision)
            assert decision == "holds" or share > 1
            assert (witness is not None) == (decision == "violated")
            if witness is not None:
                assert (witness - one).abs().max() <= radius * share + 1e-12
                assert int(exactly(model)(witness[None]).argmax()) != label
    assert "violated" in found


def test_a_property_of_another_model_is_refused(tmp_path: Path) -> None:
    path = write_property(tmp_path / "p.vnnlib", torch.zeros(5), 0.1, 0, 3)
    with pytest.raises(InputError, match="of 5 inputs"):
        decide(model_of(small(), 4), read_property(path))
