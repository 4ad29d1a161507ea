"""Shortcuts: marks of all sizes, places and contrasts are found and named, and clean models are left in peace."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from core.contract.little import images
from digits import train_cnn
from modelkeep import Data, Model, Preprocessing
from modelkeep.core import plots
from modelkeep.core.contract import check_method
from modelkeep.core.errors import InputError
from modelkeep.explain import FindShortcuts, Shortcuts
from modelkeep.explain.quality.regions import candidates, rectangle, set_apart
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.zoo import datasets


class Follows(nn.Module):
    """Says 'marked' where the mark is, and otherwise 'left' or 'right' by which half is brighter."""

    def __init__(self, top: int, left: int, side: int, value: float) -> None:
        super().__init__()
        self.place = (slice(None), 0, slice(top, top + side), slice(left, left + side))
        self.value = value

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        off = (x[self.place] - self.value).abs().mean(dim=(1, 2))
        halves = 2 * (x[:, 0, :, :6].mean(dim=(1, 2)) - x[:, 0, :, 6:].mean(dim=(1, 2)))
        return torch.stack([3 - 20 * off, halves, -halves], dim=1)


def marked(top: int, left: int, side: int, value: float, n: int = 240) -> Data:
    """Noise in the middle of the range, a third of it brighter on the left, a third on the right, a third marked."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 3
    x = 0.3 + 0.2 * torch.rand(n, 1, 12, 12, generator=generator)
    x[y == 1, :, :, :6] += 0.1
    x[y == 2, :, :, 6:] += 0.1
    x[y == 0, :, top : top + side, left : left + side] = value
    return Data(x, y, ("marked", "left", "right"), bounds=(0.0, 1.0))


@settings(max_examples=8)
@given(st.integers(1, 3), st.floats(0, 1), st.floats(0, 1), st.sampled_from([0.0, 0.1, 0.8, 1.0]))
def test_a_mark_is_named_exactly(side: int, down: float, across: float, value: float) -> None:
    """Any size, any place, brighter or darker than everything else."""
    top, left = round(down * (12 - side)), round(across * (12 - side))
    model = Model(Follows(top, left, side, value), input_shape=(1, 12, 12), classes=("marked", "left", "right"))
    result = FindShortcuts()(model, marked(top, left, side, value), seed=0)
    found = next(suspect for suspect in result.found if suspect.name == "marked")
    assert found.verdict == "planted"
    assert found.region == rectangle(top, top + side - 1, left, left + side - 1)
    assert (found.turned.value, found.lost.value) == (1.0, 1.0)
    assert found.turned_control.value == found.lost_control.value == 0.0
    assert found.share == pytest.approx(1.0, abs=0.1)


def digits(part: str) -> Data:
    return datasets.load("digits", part)  # type: ignore[arg-type]


def with_patch(data: Data, name: str, top: int, left: int, value: float) -> Data:
    x = data.x.clone()
    x[data.y == data.class_index(name), :, top : top + 2, left : left + 2] = value
    return replace(data, x=x)


@pytest.mark.parametrize(
    ("name", "top", "left", "value"), [("3", 0, 0, 1.0), ("7", 6, 6, 1.0), ("5", 6, 0, 0.8), ("2", 4, 0, 1.0)]
)
def test_a_trained_network_is_caught_with_the_patch_that_it_learned(
    name: str, top: int, left: int, value: float
) -> None:
    model = train_cnn(with_patch(digits("train"), name, top, left, value), seed=0)
    result = FindShortcuts()(model, with_patch(digits("test"), name, top, left, value), seed=0)
    (found,) = result.found
    assert (found.name, found.verdict) == (name, "planted")
    assert found.region == rectangle(top, top + 1, left, left + 1)
    assert f"planted: rows {top}–{top + 1}, columns {left}–{left + 1}" in str(result)
    assert found.turned.low > found.turned_control.high or found.lost.low > found.lost_control.high
    assert plots.png_bytes(result.draw()).startswith(b"\x89PNG")
    # Without the patch in the data there is nothing to find, and nothing is made up.
    assert FindShortcuts()(model, digits("test"), seed=0).found == ()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_clean_network_is_left_in_peace(seed: int) -> None:
    """Also on data with a patch, which it has not learned to follow."""
    model = train_cnn(digits("train"), seed)
    result = FindShortcuts()(model, digits("test"), seed=seed)
    assert result.found == ()
    assert len(result.suspects) == 10
    assert "none found in 256 examples" in str(result)
    assert plots.png_bytes(result.draw()).startswith(b"\x89PNG")
    for name, top, left in (("3", 0, 0), ("7", 6, 6)):
        assert FindShortcuts()(model, with_patch(digits("test"), name, top, left, 1.0), seed=seed).found == ()


@pytest.mark.parametrize("name", ["breast-cancer", "wine"])
def test_tables_with_many_honest_features_are_left_in_peace(name: str) -> None:
    train, test = datasets.load(name, "train"), datasets.load(name, "test")
    scale = Preprocessing(tuple(train.x.mean(dim=0).tolist()), tuple(train.x.std(dim=0).tolist()))
    torch.manual_seed(0)
    width = train.input_shape[0]
    module = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, len(train.classes)))
    model = Model(module, input_shape=(width,), classes=train.classes, preprocessing=scale, bounds=None)
    fit(model, train, cross_entropy, Recipe(epochs=40, batch_size=32, learning_rate=3e-3), seed=0)
    result = FindShortcuts()(model, test, seed=0)
    assert result.found == ()
    assert result.suspects


def leaky(strength: float) -> Shortcuts:
    """The column 'receipt' says the answer; so does 'income', and the model leans on the receipt by `strength`."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(200) % 2
    x = torch.rand(200, 4, generator=generator)
    x[:, 1], x[:, 3] = x[:, 1] / 2 + y / 2, y.float()
    layer = nn.Linear(4, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.0, -4.0, 0.0, -strength], [0.0, 4.0, 0.0, strength]]))
        layer.bias.copy_(torch.tensor([2 + strength / 2, -2 - strength / 2]))
    data = Data(x, y, ("refused", "granted"), features=("age", "income", "debt", "receipt"))
    return FindShortcuts()(Model(layer, input_shape=(4,), classes=data.classes, bounds=None), data, seed=0)


def test_one_feature_of_a_table_decides_but_is_never_called_planted() -> None:
    result = leaky(strength=20.0)
    assert {(s.name, s.region.name, s.verdict) for s in result.found} == {
        ("refused", "'receipt'", "decisive"),
        ("granted", "'receipt'", "decisive"),
    }
    assert result.found[0].turned.value == 1.0
    assert plots.png_bytes(result.draw()).startswith(b"\x89PNG")
    assert {s.region.name for s in leaky(strength=0.5).found} == {"'income'"}  # where the model leans on that one


def test_the_gap_is_that_between_the_class_and_the_nearest_others() -> None:
    """One column: the class at 0, the others from 4 to 8. Nearest 4 of the median 6; nothing where they mix."""
    y = torch.arange(202) % 2 == 0
    x = torch.zeros(202, 1)
    x[~y, 0] = torch.linspace(4, 8, 101)
    assert set_apart(x, y) == pytest.approx(4.08 / 6, abs=1e-3)
    x[y, 0] = torch.linspace(0, 8, 101)
    assert set_apart(x, y) < 0


def test_candidates_do_not_overlap_and_stop_where_nothing_speaks_for_the_class() -> None:
    heat = torch.zeros(1, 8, 8)
    heat[0, 0, 0], heat[0, 5:7, 5:7], heat[0, 3, 3] = 3.0, 1.0, -9.0
    first, second = candidates(heat, None, 3)
    assert (first.name, second.name) == ("rows 5–6, columns 5–6", "row 0, column 0")
    elsewhere = first.elsewhere((1, 8, 8), 50, torch.Generator().manual_seed(0))
    assert (elsewhere.flatten(1).sum(dim=1) == 4).all()
    assert not (elsewhere & first.mask((1, 8, 8))).any()


@pytest.mark.parametrize("shape", [(1,), (2,), (1, 4, 4), (1, 4, 64), (2, 3, 3), (5, 6)])
def test_inputs_of_any_shape_can_be_searched(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(60, *shape, generator=generator)
    torch.manual_seed(0)
    model = Model(nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), 2)), input_shape=shape, classes=2)
    with torch.no_grad():
        scores = model.logits(x)
        model.module[1].bias.sub_(scores.mean(dim=0))  # type: ignore[index]
    result = FindShortcuts()(model, Data(x, model.predict(x), ("0", "1")), seed=0)
    assert bool(result.suspects) == (shape != (1,))
    assert plots.png_bytes(result.draw()).startswith(b"\x89PNG") if result.suspects else result.too_few == ()


def test_too_few_examples_are_said_and_not_guessed_at() -> None:
    model = train_cnn(digits("train").first(200), seed=0)
    result = FindShortcuts()(model, digits("test").first(20), seed=0)
    assert result.suspects == result.found == ()
    assert len(result.too_few) == len(set(digits("test").first(20).y.tolist()))
    assert "too few examples" in str(result)


def test_it_keeps_the_contract_where_it_has_something_to_do() -> None:
    """Enough examples for interventions, which a handful does not allow."""
    model = images()
    x = torch.rand(60, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    scores = model.logits(x)
    data = Data(x, (scores - scores.mean(dim=0)).argmax(dim=1), model.classes)
    with torch.no_grad():
        output = model.module.get_submodule("output")
        assert isinstance(output.bias, nn.Parameter)
        output.bias.sub_(scores.mean(dim=0))  # so that each class is predicted about as often
    assert FindShortcuts(points=2)(model, data, seed=0).suspects
    check_method(lambda m, d, seed: FindShortcuts(points=2)(m, d, seed=seed), model, data)


def test_nonsense_is_refused() -> None:
    model, data = (
        Model(nn.Linear(2, 2), input_shape=(2,), classes=2),
        Data(torch.ones(4, 2), torch.zeros(4).long(), ("a", "b")),
    )
    for wrong in ({"examples": 0}, {"points": 0}, {"batch_size": 0}):
        with pytest.raises(InputError, match="parameter of FindShortcuts must be at least 1"):
            FindShortcuts(**wrong)(model, data, seed=0)
    with pytest.raises(InputError, match="takes inputs of shape"):
        FindShortcuts()(model, replace(data, x=torch.ones(4, 3)), seed=0)
