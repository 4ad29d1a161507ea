"""Exemplars are what sorting all of the data by a unit's activation gives, and their boxes hold what moved the unit."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Data, Model, Result
from modelkeep.core import plots
from modelkeep.core.errors import InputError, SliceError
from modelkeep.explain.meaning.exemplars import FindExemplars


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def images(n: int, seed: int = 0) -> Data:
    return Data(noise(n, 1, 8, 8, seed=seed), torch.arange(n) % 4, ("zero", "one", "two", "three"), bounds=(0, 1))


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_channels_are_sorted_as_by_brute_force(small_cnn: Model, batch_size: int) -> None:
    data = images(50)
    found = FindExemplars(slice="2", units=[3, 0], count=6, batch_size=batch_size)(small_cnn, data, seed=0)
    with torch.no_grad():
        value = small_cnn.module[:3](data.x)  # type: ignore[index]
    for row, channel in enumerate((3, 0)):
        best = value[:, channel].flatten(1).amax(dim=1)
        order = best.argsort(descending=True)[:6]
        assert torch.equal(found.index[row], order)
        torch.testing.assert_close(found.activation[row], best[order])
        torch.testing.assert_close(found.percentiles[row, [0, 100]].float(), torch.stack([best.min(), best.max()]))
        torch.testing.assert_close(found.percentiles[row, 50].float(), best.quantile(0.5))
        assert found.position is not None
        for example, (i, j), activation in zip(order, found.position[row], found.activation[row], strict=True):
            torch.testing.assert_close(value[example, channel, i, j], activation)
    assert torch.equal(found.inputs, data.x[found.index])
    assert torch.equal(found.labels, data.y[found.index])


def test_units_are_sorted_and_equal_ones_stay_in_the_order_of_the_data() -> None:
    model = Model(nn.Sequential(nn.ReLU(), nn.Linear(3, 2)), input_shape=(3,), classes=2, bounds=None)
    x = torch.tensor([[-1.0, 0, 5], [-2, 0, 7], [3, 0, 5], [-1, 0, 7]])
    found = FindExemplars(slice="0", units=[0, 1, 2])(model, Data(x, torch.tensor([0, 1, 0, 1]), ("0", "1")), seed=0)
    assert found.index.tolist() == [[2, 0, 1, 3], [0, 1, 2, 3], [1, 3, 0, 2]]
    assert found.position is None
    assert found.box is None
    assert plots.png_bytes(found.draw()).startswith(b"\x89PNG")


def test_the_percentiles_of_many_examples_are_those_of_a_sample() -> None:
    model = Model(nn.Sequential(nn.Identity(), nn.Linear(1, 2)), input_shape=(1,), classes=2)
    x = noise(9000, 1)
    found = FindExemplars(slice="0", units=[0])(
        model, Data(x, torch.zeros(9000, dtype=torch.int64), ("0", "1")), seed=0
    )
    assert abs(float(found.percentiles[0, 50]) - 0.5) < 0.03
    assert float(found.activation[0, 0]) == float(x.max())  # the exemplars come from all of them


def planted(pattern: torch.Tensor, where: list[tuple[int, int]]) -> tuple[Model, Data]:
    """A convolution that looks for the pattern, and dark images that show it in one place each."""
    convolution = nn.Conv2d(1, 1, 3, padding=1)
    with torch.no_grad():
        convolution.weight.copy_(pattern[None, None])
        assert convolution.bias is not None
        convolution.bias.zero_()
    module = nn.Sequential(convolution, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 2))
    x = torch.zeros(len(where), 1, 16, 16)
    for image, (i, j) in zip(x, where, strict=True):
        image[0, i - 1 : i + 2, j - 1 : j + 2] = pattern.clamp(min=0)
    model = Model(module, input_shape=(1, 16, 16), classes=2)
    return model, Data(x, torch.zeros(len(where), dtype=torch.int64), ("0", "1"))


def test_position_and_box_are_where_the_pattern_is() -> None:
    where = [(3, 3), (12, 5), (8, 14)]
    model, data = planted(torch.tensor([[1.0, -1, 1], [-1, 1, -1], [1, -1, 1]]), where)
    found = FindExemplars(slice="2", units=[0], count=3)(model, data, seed=0)
    assert found.index.tolist() == [[0, 1, 2]]
    assert found.position is not None
    assert found.position[0].tolist() == [[i // 2, j // 2] for i, j in where]
    assert found.box is not None
    assert found.box[0].tolist() == [[i - 1, j - 1, i + 2, j + 2] for i, j in where]


def test_the_box_of_a_unit_that_nothing_moves_is_the_whole_input() -> None:
    model, data = planted(-torch.ones(3, 3), [(3, 3)])
    found = FindExemplars(slice="1", units=[0])(model, data, seed=0)
    assert found.box is not None
    assert found.box[0].tolist() == [[0, 0, 16, 16]]


def test_reads_stores_and_draws_itself(small_cnn: Model) -> None:
    found = FindExemplars(slice="2", units=[1], count=3)(small_cnn, images(9), seed=0)
    again = Result.from_json(found.to_json())
    assert again.to_json() == found.to_json()
    assert "channel 1" in dict(found.rows())
    assert plots.png_bytes(found.draw()).startswith(b"\x89PNG")


def test_what_does_not_exist_is_refused(small_cnn: Model) -> None:
    data = images(5)
    with pytest.raises(InputError, match=r"channels from 0 to 3 of '2'. Got \[4\]"):
        FindExemplars(slice="2", units=[4])(small_cnn, data, seed=0)
    with pytest.raises(InputError, match=r"units from 0 to 15 of '4'. Got \[\]"):
        FindExemplars(slice="4", units=[])(small_cnn, data, seed=0)
    with pytest.raises(SliceError, match="Cannot cut at 'conv'"):
        FindExemplars(slice="conv", units=[0])(small_cnn, data, seed=0)
    with pytest.raises(InputError, match="'count'"):
        FindExemplars(slice="2", units=[0], count=0)(small_cnn, data, seed=0)
