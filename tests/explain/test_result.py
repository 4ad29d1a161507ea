"""The result of an explanation reads, stores and draws itself, whatever the slice looks like."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Data, Model, Result
from modelkeep.core import plots
from modelkeep.explain import ClassScore, Explained, Influence, Line


@pytest.fixture
def images() -> torch.Tensor:
    return torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def test_comes_back_from_json(small_cnn: Model, images: torch.Tensor) -> None:
    for distribution in (Line(0.0, count=2), Line(0.0, count=2, at="slice")):
        found = Influence(slice="2", distribution=distribution)(small_cnn, images, seed=3)
        again = Result.from_json(found.to_json())
        assert isinstance(again, Explained)
        assert again.to_json() == found.to_json()
        assert torch.equal(again.influence, found.influence)
        assert again.provenance.seed == 3


def test_says_what_was_asked(small_cnn: Model, images: torch.Tensor) -> None:
    found = Influence(slice="2", quantity=ClassScore("two"), distribution=Line(0, count=9))(small_cnn, images, seed=0)
    rows = dict(found.rows())
    assert rows["explains"] == "class 'two'"
    assert rows["at"] == "2"
    assert rows["over"] == "line from 0 at the input, 9 points"
    assert rows["efficiency gap"].endswith("n=3")
    assert rows["largest attribution"].startswith("channel ")
    point = dict(Influence()(small_cnn, images, seed=0).rows())
    assert "efficiency gap" not in point
    assert not any(label.startswith("largest") for label in point)


def test_the_strongest_come_first_with_their_names() -> None:
    """Units of measure do not matter: of a feature that hardly varies, a unit is much."""
    layer = nn.Linear(3, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, -5.0, 2.0], [0.0, 0.0, 0.0]]))
    x = torch.tensor([[0.0, 0.0, 0.0], [20.0, 2.0, 1.0]])
    data = Data(x, torch.zeros(2, dtype=torch.int64), ("a", "b"), features=("age", "debt", "rent"))
    model = Model(layer, input_shape=(3,), classes=("a", "b"), bounds=None)
    found = Influence(quantity=ClassScore("a"))(model, data, seed=0)
    spread = 2**0.5 / 2  # of the numbers 0 and 1, as an estimate from a sample
    wanted = [("age", 20 * spread), ("debt", -5 * 2 * spread), ("rent", 2 * spread)]
    assert [name for name, _ in found.strongest(3)] == [name for name, _ in wanted]
    assert [e.value for _, e in found.strongest(3)] == pytest.approx([value for _, value in wanted])
    assert found.provenance.data == data.fingerprint()
    assert plots.png_bytes(found.draw()).startswith(b"\x89PNG")
    one = Influence(quantity=ClassScore("a"))(model, data.first(1), seed=0)  # no spread to compare by
    assert [(name, e.value) for name, e in one.strongest(3)] == [("debt", -5.0), ("rent", 2.0), ("age", 1.0)]


@pytest.mark.parametrize("place", ["input", "0", "2", "4"])
def test_draws_itself_at_every_kind_of_slice(small_cnn: Model, images: torch.Tensor, place: str) -> None:
    """Over the picture, a map of the same size as it, a smaller map, and units without a place."""
    found = Influence(slice=place, distribution=Line(0.0, count=2))(small_cnn, images, seed=0)
    assert plots.png_bytes(found.draw()).startswith(b"\x89PNG")


def test_draws_pictures_without_bounds(images: torch.Tensor) -> None:
    model = Model(nn.Sequential(nn.Flatten(), nn.Linear(64, 2)), input_shape=(1, 8, 8), classes=("a", "b"), bounds=None)
    assert plots.png_bytes(Influence()(model, 9 * images - 4, seed=0).draw()).startswith(b"\x89PNG")
