"""Soundness: the share of admissible explanations is the one that was built in, and offenders are named."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Data, Estimate, Model
from modelkeep.core import plots
from modelkeep.core.errors import InputError
from modelkeep.explain import DataSet, Explained, Influence, Inside, MeasureSoundness, Point


def looks_left() -> Model:
    """Class 'left' is the brightness of the left column of 2×2 pictures, 'right' that of the right one."""
    layer = nn.Linear(4, 2, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]]))
    return Model(nn.Sequential(nn.Flatten(), layer), input_shape=(1, 2, 2), classes=("left", "right"))


def pictures(left: int, right: int) -> Data:
    x = torch.zeros(left + right, 1, 2, 2)
    x[:left, 0, :, 0] = 1.0
    x[left:, 0, :, 1] = 1.0
    return Data(x, torch.tensor([0] * left + [1] * right), ("left", "right"))


LEFT = torch.tensor([[True, False], [True, False]])


def test_counts_what_lies_inside() -> None:
    found = MeasureSoundness(criterion=Inside(LEFT))(looks_left(), pictures(6, 2), seed=0)
    assert found.sound == Estimate.rate(6, 8)
    assert found.by_class == {"left": Estimate.rate(6, 6), "right": Estimate.rate(0, 2)}
    assert found.worst == (6, 7)
    assert found.margin.tolist() == [0.5] * 6 + [-0.5] * 2
    assert found.titles[0] == "right, seen as right\noff by 0.50"
    assert "6 (-0.50), 7 (-0.50)" in str(found)
    assert plots.png_bytes(found.draw()).startswith(b"\x89PNG")


def test_the_worst_come_first() -> None:
    data = pictures(0, 3)
    data.x[1, 0, 0, 0] = 0.9  # a little of what is allowed
    found = MeasureSoundness(criterion=lambda explained: -explained.inputs.flatten(1).sum(dim=1))(
        looks_left(), data, seed=0
    )
    assert found.worst == (1, 0, 2)


def test_a_mask_of_everything_exempts_an_example() -> None:
    masks = LEFT.expand(8, 2, 2).clone()
    masks[7] = True
    found = MeasureSoundness(criterion=Inside(masks))(looks_left(), pictures(6, 2), seed=0)
    assert found.exempt == 1
    assert found.sound == Estimate.rate(6, 7)
    assert "1 examples, not counted" in str(found)


def test_a_function_of_the_explanation_is_a_criterion_too() -> None:
    """Bool or a number; both see the explanation, and NaN exempts."""

    def top_row(explained: Explained) -> torch.Tensor:
        return explained.influence[:, 0, 0].sum(dim=1) > 0

    assert (
        MeasureSoundness(criterion=top_row, influence=Influence(distribution=Point()))(
            looks_left(), pictures(3, 3), seed=0
        ).sound.value
        == 1.0
    )
    numbers = torch.tensor([0.0, -0.1, torch.nan, 3.0])
    found = MeasureSoundness(criterion=lambda _: numbers)(looks_left(), pictures(2, 2), seed=0)
    assert (found.sound, found.exempt, found.worst) == (Estimate.rate(2, 3), 1, (1,))
    assert found.worst_masks is None


def test_tables_are_judged_by_their_columns() -> None:
    layer = nn.Linear(3, 2, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 0.0, 9.0], [0.0, 1.0, 0.0]]))
    data = Data(torch.ones(4, 3), torch.zeros(4, dtype=torch.int64), ("a", "b"), features=("age", "debt", "zip"))
    allowed = Inside(torch.tensor([True, True, False]), share=0.2)
    found = MeasureSoundness(criterion=allowed)(
        Model(layer, input_shape=(3,), classes=("a", "b"), bounds=None), data, seed=0
    )
    assert found.sound.value == 0.0
    assert float(found.margin[0]) == pytest.approx(0.1 - 0.2)
    assert plots.png_bytes(found.draw()).startswith(b"\x89PNG")


def test_an_explanation_that_points_nowhere_breaks_no_rule() -> None:
    data = Data(torch.zeros(2, 1, 2, 2), torch.zeros(2, dtype=torch.int64), ("left", "right"))
    found = MeasureSoundness(criterion=Inside(LEFT))(looks_left(), data, seed=0)
    assert found.sound.value == 1.0
    assert found.worst == ()
    assert plots.png_bytes(found.draw()).startswith(b"\x89PNG")


def test_wrong_criteria_are_refused() -> None:
    model, data = looks_left(), pictures(2, 2)
    for criterion, message in (
        (lambda _: torch.ones(3, dtype=torch.bool), r"shape \(4,\). Got a tensor of shape \(3,\)"),
        (lambda _: True, "Got bool"),
        (lambda _: torch.ones(4, dtype=torch.int64), "Got torch.int64"),
        (lambda _: torch.full((4,), torch.inf), "finite numbers"),
        (lambda _: torch.full((4,), torch.nan), "exempts every example"),
        (Inside(LEFT.float()), "must be a bool tensor"),
        (Inside(torch.ones(3, 3, dtype=torch.bool)), "Masks"),
        (Inside(torch.ones(5, 2, 2, dtype=torch.bool)), r"must have the shape \(4, 2, 2\)"),
    ):
        with pytest.raises(InputError, match=message):
            MeasureSoundness(criterion=criterion)(model, data, seed=0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="'share' parameter of Inside"):
        Inside(LEFT, share=0.0)
    with pytest.raises(InputError, match="one explanation per example"):
        MeasureSoundness(criterion=Inside(LEFT), influence=Influence(distribution=DataSet()))(model, data, seed=0)
