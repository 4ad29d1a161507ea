"""The occlusion and isolation tests: a linear model says what must come out, and brute force that no order beats it."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from modelkeep import Model
from modelkeep.core import plots
from modelkeep.core.errors import InputError
from modelkeep.explain import (
    ChannelInfluence,
    ClassScore,
    DataSet,
    Influence,
    IsolationTest,
    Line,
    OcclusionTest,
    measure_localisation,
)


def linear(weight: torch.Tensor) -> Model:
    layer = nn.Linear(weight.shape[1], len(weight))
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.zero_()
    return Model(layer, input_shape=(weight.shape[1],), classes=len(weight), bounds=None)


@given(st.integers(0, 10_000), st.integers(2, 5))
def test_no_order_beats_that_of_the_attribution_of_a_linear_model(seed: int, features: int) -> None:
    """Every order of the features, scored by hand: the area under the class's logit is nowhere smaller."""
    generator = torch.Generator().manual_seed(seed)
    model = linear(torch.randn(3, features, generator=generator))
    x, baseline = torch.randn(1, features, generator=generator), torch.randn(features, generator=generator)
    found = Influence(distribution=Line(baseline, count=2))(model, x, seed=0)
    ours = OcclusionTest(baseline=baseline, measure="logit", steps=features)(model, found, seed=0)
    areas = []
    for order in permutations(range(features)):
        occluded, scores = x.clone(), []
        for feature in (None, *order):
            if feature is not None:
                occluded[0, feature] = baseline[feature]
            scores.append(float(model.logits(occluded)[0, found.predicted[0]]))
        areas.append(np.trapezoid(scores, dx=1 / features))
    assert ours.area.value == pytest.approx(min(areas), abs=1e-4)
    kept = IsolationTest(baseline=baseline, measure="logit", steps=features)(model, found, seed=0)
    assert kept.area.value == pytest.approx(max(areas), abs=1e-4)  # what is kept first is what would be occluded first


def test_influence_without_a_baseline_is_given_the_one_of_the_test() -> None:
    """A black pixel on a grey baseline: its gradient is positive, but occluding it raises the score (section 4.2)."""
    model = linear(torch.tensor([[2.0, 1.0], [0.0, 0.0]]))
    x = torch.tensor([[0.0, 1.0]])
    found = Influence()(model, x, seed=0)
    curve = OcclusionTest(baseline=0.5, measure="logit")(model, found, seed=0)
    assert [estimate.value for estimate in curve.salient] == pytest.approx([1.0, 0.5, 1.5])
    from_black = Influence(distribution=Line(0.5, count=2))(model, x, seed=0)
    assert OcclusionTest(baseline=0.5, measure="logit")(model, from_black, seed=0).salient == curve.salient


def test_pixels_go_with_all_their_channels() -> None:
    """Both ends of the curve are the clean and the empty picture; in between, whole pixels are gone."""
    module = nn.Sequential(nn.Flatten(), nn.Linear(3 * 4 * 4, 2))
    model = Model(module, input_shape=(3, 4, 4), classes=2)
    x = torch.rand(5, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    found = Influence(distribution=Line(0.0, count=2))(model, x, seed=0)
    curve = OcclusionTest(steps=4, batch_size=2)(model, found, seed=0)
    assert curve.shares == (0.0, 0.25, 0.5, 0.75, 1.0)
    label = found.predicted[:, None]
    torch.testing.assert_close(curve.salient_scores[:, :1].float(), model.probs(x).gather(1, label))
    torch.testing.assert_close(curve.random_scores[:, -1:].float(), model.probs(torch.zeros_like(x)).gather(1, label))
    assert found.attribution is not None
    least = found.attribution.sum(dim=1).flatten(1).argsort(dim=1, descending=True)[:, 4:]
    keep = torch.zeros(5, 16).scatter(1, least, 1.0).view(5, 1, 4, 4)
    torch.testing.assert_close(curve.salient_scores[:, 1:2].float(), model.probs(x * keep).gather(1, label))


@pytest.mark.parametrize("place", ["0", "2", "4"])
def test_units_of_an_inner_slice_are_occluded_there(small_cnn: Model, place: str) -> None:
    """Channels of a feature map, or single units: with all of them gone, the network sees the baseline there."""
    x = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    found = Influence(slice=place, quantity=ClassScore("two"))(small_cnn, x, seed=0)
    curve = OcclusionTest(baseline=0.25, measure="logit")(small_cnn, found, seed=0)
    cut = small_cnn.slice(place)
    empty = cut.g(cut.h(x).replace(torch.full_like(cut.h(x).value, 0.25))).gather(1, found.predicted[:, None])
    torch.testing.assert_close(curve.salient_scores[:, -1:].float(), empty.detach())
    assert len(curve.shares) == {"0": 5, "2": 5, "4": 17}[place]


def test_the_order_matters_and_the_result_says_by_how_much(small_cnn: Model) -> None:
    x = torch.rand(24, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    found = Influence(distribution=Line(0.0, count=20))(small_cnn, x, seed=0)
    for test, sign in ((OcclusionTest(steps=8), -1), (IsolationTest(steps=8), 1)):
        curve = test(small_cnn, found)
        assert curve.advantage.low > 0
        assert curve.advantage.value == pytest.approx(sign * (curve.area.value - curve.random_area.value))
        assert "better than random by" in str(curve)
        assert plots.png_bytes(curve.draw()).startswith(b"\x89PNG")


def test_the_batch_size_changes_nothing(small_cnn: Model) -> None:
    x = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    found = Influence()(small_cnn, x, seed=0)
    one, all_ = (OcclusionTest(steps=4, batch_size=size)(small_cnn, found, seed=0) for size in (1, 6))
    torch.testing.assert_close(one.salient_scores, all_.salient_scores)
    torch.testing.assert_close(one.random_scores, all_.random_scores)


def test_nonsense_is_refused(small_cnn: Model) -> None:
    x = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    found = Influence()(small_cnn, x, seed=0)
    for wrong, message in (
        ({"measure": "loss"}, "'measure' parameter of OcclusionTest must be one of 'probability', 'logit'"),
        ({"steps": 0}, "'steps'"),
        ({"batch_size": 0}, "'batch_size'"),
        ({"baseline": torch.zeros(8)}, r"must be a number or have the shape \(1, 8, 8\)"),
        ({"baseline": float("nan")}, "must be finite"),
    ):
        with pytest.raises(InputError, match=message):
            OcclusionTest(**wrong)(small_cnn, found, seed=0)
    with torch.no_grad():
        next(small_cnn.module.parameters()).add_(1.0)
    with pytest.raises(InputError, match="made for another model"):
        OcclusionTest()(small_cnn, found, seed=0)


def test_an_explanation_of_many_together_or_of_sums_is_refused(small_cnn: Model) -> None:
    """The mean of a data set is not an example, and a channel's sum says nothing of its positions."""
    x = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    together = Influence(distribution=DataSet())(small_cnn, x, seed=0)
    for test in (OcclusionTest(), IsolationTest()):
        with pytest.raises(InputError, match="this one is of 4 examples together"):
            test(small_cnn, together, seed=0)
    with pytest.raises(InputError, match="this one is of 4 examples together"):
        measure_localisation(together, torch.ones(1, 8, 8, dtype=torch.bool), seed=0)
    with pytest.raises(InputError, match="were positions summed"):
        OcclusionTest()(small_cnn, ChannelInfluence(slice="2")(small_cnn, x, seed=0), seed=0)
