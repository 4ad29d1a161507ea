"""Localisation: numbers that can be counted by hand, on models whose weights say where they look."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from modelkeep import Model
from modelkeep.core import plots
from modelkeep.core.errors import InputError
from modelkeep.explain import ClassScore, Explained, Influence, Line, measure_localisation


def explained(weights: torch.Tensor, n: int = 3) -> Explained:
    """A linear model of white pictures: the attribution of class 0 is its weights, `(h, w)` or `(c, h, w)`."""
    shape = tuple(weights.shape) if weights.ndim == 3 else (1, *weights.shape)
    layer = nn.Linear(weights.numel(), 2, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.stack([weights.flatten(), torch.zeros(weights.numel())]))
    model = Model(nn.Sequential(nn.Flatten(), layer), input_shape=shape, classes=("yes", "no"))
    return Influence(quantity=ClassScore("yes"), distribution=Line(0.0, count=2))(model, torch.ones(n, *shape), seed=0)


def test_counted_by_hand() -> None:
    found = explained(torch.tensor([[4.0, 1.0], [1.0, -4.0]]))
    masks = torch.tensor([[True, True], [False, False]]).expand(3, 2, 2)
    result = measure_localisation(found, masks, seed=0)
    assert result.inside.value == pytest.approx(5 / 6)
    assert result.area.value == 0.5
    assert result.beyond_area.value == pytest.approx(5 / 6 - 1 / 2)
    assert result.pointing.value == 1.0
    assert result.overlap.value == 1.0  # of equal ones the first counts
    absolute = measure_localisation(found, masks, sign="absolute", seed=0)
    assert absolute.inside.value == pytest.approx(0.5)
    assert absolute.overlap.value == pytest.approx(1 / 3)  # 4, -4 and the mask: one shared of three
    assert "the model, not the explanation" in str(result)
    assert plots.png_bytes(result.draw()).startswith(b"\x89PNG")


def test_channels_are_summed_first() -> None:
    weights = torch.zeros(3, 2, 2)
    weights[0, 0, 0], weights[1, 0, 0], weights[2, 1, 1] = 3.0, -3.0, 1.0
    masks = torch.zeros(3, 2, 2, dtype=torch.bool)
    masks[:, 1, 1] = True
    assert measure_localisation(explained(weights), masks, seed=0).inside.value == pytest.approx(1.0)


@given(st.integers(0, 10_000))
def test_an_explanation_that_knows_nothing_has_the_area_of_the_mask(seed: int) -> None:
    """Even attribution lies inside in proportion to the area, whatever the masks."""
    masks = torch.rand(4, 5, 5, generator=torch.Generator().manual_seed(seed)) < 0.4
    masks[:, 2, 2] = True
    result = measure_localisation(explained(torch.ones(5, 5), n=4), masks, seed=0)
    assert result.inside.value == pytest.approx(result.area.value)
    assert result.beyond_area.value == pytest.approx(0.0, abs=1e-9)


def test_the_same_explanation_is_good_or_bad_with_the_model_it_explains() -> None:
    """Section 4.3: both explanations are exact. Only one of the models looks at the subject."""
    masks = torch.zeros(3, 4, 4, dtype=torch.bool)
    masks[:, 1:3, 1:3] = True
    weights = masks[0].float()
    assert measure_localisation(explained(weights), masks, seed=0).inside.value == 1.0
    assert measure_localisation(explained(1 - weights), masks, seed=0).inside.value == 0.0


def test_examples_without_attribution_are_left_out_and_said() -> None:
    found = explained(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
    assert found.attribution is not None
    found.attribution[0] = 0.0
    result = measure_localisation(found, torch.eye(2, dtype=torch.bool).expand(3, 2, 2), seed=0)
    assert result.silent == 1
    assert result.inside.n == 2
    assert result.shares[0].isnan()
    assert "1 examples, left out" in str(result)


def test_wrong_masks_are_refused() -> None:
    found = explained(torch.ones(2, 2))
    right = torch.ones(3, 2, 2, dtype=torch.bool)
    for masks, message in (
        (right.float(), "must be a bool tensor.*Got torch.float32"),
        (right.tolist(), "must be a bool tensor.*Got list"),
        (right[:2], r"must have the shape \(3, 2, 2\).*Got \(2, 2, 2\)"),
        (right[:, None], "without channels"),
        (~right, "The masks of 3 examples are empty"),
    ):
        with pytest.raises(InputError, match=message):
            measure_localisation(found, masks, seed=0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="'positive' or 'absolute'"):
        measure_localisation(found, right, sign="negative", seed=0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="nothing to locate"):
        measure_localisation(explained(-torch.ones(2, 2)), right, seed=0)
