"""Where to cut: the figures against arithmetic, the rule against cuts made by hand."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from modelkeep import Data, Model, Result
from modelkeep.completion.curve import ratio
from modelkeep.completion.part import Part
from modelkeep.completion.problem import Problem
from modelkeep.completion.procedures.joint_training import FrozenTraining, JointTraining
from modelkeep.completion.retraining import train_from_scratch
from modelkeep.core import plots
from modelkeep.core.errors import InputError, SliceError
from modelkeep.core.results import Estimate
from modelkeep.core.slices import Place
from modelkeep.govern.exposure import Advice, AtCut, Completing, Costs, Link, advise
from modelkeep.govern.exposure.advice import recommend
from modelkeep.govern.exposure.completion import measure_completions
from modelkeep.govern.exposure.costs import measure_costs
from modelkeep.training import Recipe, evaluate
from modelkeep.training.batches import derive_seed
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import small_cnn

LINK = Link(1e8, 1e-3)


def model() -> Model:
    torch.manual_seed(0)
    classes = datasets.load("digits").classes
    return Model(small_cnn((1, 8, 8), 10), input_shape=(1, 8, 8), classes=classes)


@cache
def advice() -> Advice:
    data = datasets.load("digits", "test").first(80)
    return advise(model(), data, cuts=["conv1_pool", "linear1"], link=LINK, batch_size=16, seed=0)


def cut(place: str, inputs: float, labels: float, overhead: float) -> AtCut:
    def sure(value: float) -> Estimate:
        return Estimate(value, value, value, 100)

    return AtCut(
        place=place,
        costs=Costs(100, 100, 10, 10, 0.1, 0.1, 64),
        overhead=overhead,
        inputs=sure(inputs),
        inputs_by="decoder",
        reidentified=sure(1.0),
        ssim=None,
        labels=sure(labels),
        labels_by="direction",
        fresh_labels=None,
    )


def test_the_least_of_the_worse_leaks_is_recommended() -> None:
    best, reason = recommend([cut("early", 0.9, 0.1, 1.5), cut("mid", 0.5, 0.4, 1.2), cut("late", 0.1, 1, 1.1)], 2.0)
    assert best.place == "mid"
    assert reason == (
        "Cut after 'mid': of the 3 places where a step takes at most 2× as long, the worse of what leaks is least "
        "there (50% of the inputs, 40% of the labels)."
    )


def test_a_place_that_costs_too_much_is_not_recommended() -> None:
    found, _ = recommend([cut("early", 0.2, 0.2, 3.0), cut("late", 0.5, 0.9, 1.1)], 2.0)
    assert found.place == "late"
    found, reason = recommend([cut("early", 0.2, 0.2, 3.0), cut("late", 0.5, 0.9, 2.1)], 2.0)
    assert found.place == "early"
    assert "more than 2×" in reason


def test_where_the_worse_leak_is_the_same_the_other_decides() -> None:
    found, reason = recommend([cut("early", 1.0, 1.0, 1.1), cut("late", 0.3, 0.995, 1.1)], 2.0)
    assert found.place == "late"
    assert "no cut protects by itself" in reason


def test_bytes_and_parameters_are_those_of_the_network() -> None:
    first, second = advice().cuts
    assert (first.place, second.place) == ("conv1_pool", "linear1")
    assert first.costs.bytes_forward == first.costs.bytes_backward == 16 * 4 * 4 * 4
    assert second.costs.bytes_forward == second.costs.bytes_backward == 64 * 4
    assert first.costs.parameters_before == 16 * 9 + 16
    assert second.costs.parameters_after == 64 * 10 + 10
    total = sum(parameter.numel() for parameter in model().module.parameters())
    assert all(c.costs.parameters_before + c.costs.parameters_after == total for c in (first, second))
    assert 0 < first.costs.compute_before < 1


def test_the_overhead_is_the_time_on_the_wire() -> None:
    for found in advice().cuts:
        cost = found.costs
        wire = 2 * 1e-3 + 16 * (cost.bytes_forward + cost.bytes_backward) / 1e8
        computing = cost.seconds_before + cost.seconds_after
        assert found.overhead == pytest.approx((computing + wire) / computing)


def test_new_weights_give_the_labels_away_everywhere() -> None:
    for found in advice().cuts:
        assert found.fresh_labels is not None
        assert found.fresh_labels.value > 0.8
        assert found.completion is None
    assert "not measured" in dict(advice().rows())["completion hardness"]


def test_both_pieces_of_a_cut_are_completed_from_what_the_other_party_has() -> None:
    """The same trainings by hand: the original, then T1 and T2 without either piece."""
    data, recipe = datasets.load("digits", "train").first(400), Recipe(steps=40, evaluate_every=4, batch_size=32)
    place = Place("conv1_pool")
    found = measure_completions(model(), data, [place], Completing(recipe, runs=1, alpha=0.8), seed=0)[place]
    held_out, train = data.split(0.2, 0.8, seed=0)
    trained = train_from_scratch(model(), train, held_out, recipe, seed=0)
    for bound, layers in ((found.first, ("conv1",)), (found.second, ("conv2", "linear1", "logits"))):
        problem = Problem(trained.model, Part(bound.part, layers), train, held_out, recipe)
        values = [
            ratio(trained.curve, each(problem, seed=derive_seed(0, "retraining")).curve, 0.8).value
            for each in (JointTraining(), FrozenTraining())
        ]
        assert bound.hardness.value == min(values)
    # A trained model is completed itself, to its own loss.
    own = measure_completions(trained.model, data, [place], Completing(recipe, runs=1, alpha=1.0), seed=3)[place]
    held_out, train = data.split(0.2, 0.8, seed=3)
    wrong = 1 - evaluate(trained.model, held_out)[1].value
    original = train_from_scratch(model(), train, held_out, recipe, seed=3).curve
    problem = Problem(trained.model, Part(own.second.part, ("conv2", "linear1", "logits")), train, held_out, recipe)
    assert own.second.hardness.value == min(
        ratio(original, each(problem, seed=derive_seed(3, "retraining")).curve, 1.0, wrong).value
        for each in (JointTraining(), FrozenTraining())
    )
    assert found.easier.hardness.value == min(found.first.hardness.value, found.second.hardness.value)


def test_completion_counts_steps_and_so_needs_them() -> None:
    with pytest.raises(InputError, match="with `steps`"):
        Completing(Recipe(epochs=1))


def test_an_advice_prints_draws_and_comes_back() -> None:
    found = advice()
    printed = str(found)
    assert "conv1_pool" in printed
    assert "recommendation" in printed
    again = Result.from_json(found.to_json())
    assert again.to_json() == found.to_json()
    pixels = np.asarray(Image.open(io.BytesIO(plots.png_bytes(found.draw()))))
    assert pixels.std() > 1


def test_all_places_with_parameters_on_both_sides_are_looked_at() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Dropout(), nn.ReLU(), nn.Linear(3, 2), nn.Identity())
    data = Data(torch.rand(24, 2, 2), torch.arange(24) % 2, ("a", "b"))
    found = advise(Model(module, input_shape=(2, 2), classes=data.classes), data, link=LINK, batch_size=4, seed=0)
    # In eval mode dropout lets the same numbers cross as the layer before it; at 0, 4 and 5 one side has nothing.
    assert [c.place for c in found.cuts] == ["1", "3"]
    assert found.left_out == ("2",)


def test_a_cost_leaves_the_model_as_it_was() -> None:
    mine = model()
    before = mine.fingerprint()
    measure_costs(mine, datasets.load("digits", "test"), "conv1", batch_size=8, seed=0)
    assert mine.fingerprint() == before
    assert not mine.module.training
    assert all(parameter.grad is None for parameter in mine.module.parameters())


def test_loopback_is_measured_over_mutual_tls() -> None:
    found = Link.loopback()
    assert found.bandwidth > 1e5
    assert found.latency > 0
    assert "measured on loopback" in str(found)


def test_what_cannot_be_advised_on_is_refused() -> None:
    data = datasets.load("digits", "test").first(20)
    with pytest.raises(InputError, match="'most_overhead' parameter"):
        advise(model(), data, most_overhead=0.5, link=LINK, seed=0)
    with pytest.raises(InputError, match="'cuts' parameter"):
        advise(model(), data, cuts=[], link=LINK, seed=0)
    with pytest.raises(SliceError, match="conv9"):
        advise(model(), data, cuts=["conv9"], link=LINK, seed=0)
    with pytest.raises(InputError, match="'bandwidth' parameter"):
        replace(LINK, bandwidth=0)
    single = Model(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), input_shape=(1, 8, 8), classes=data.classes)
    with pytest.raises(SliceError, match="nothing to split"):
        advise(single, data, link=LINK, seed=0)
