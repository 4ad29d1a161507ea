"""Definition 9.1 on cases that can be counted by hand, and its split by theorem 9.1 on Gaussian data."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from bias.networks import drawn_network, gaussian_data, linear, table
from modelkeep import Data, Model, Result
from modelkeep.bias import MeasureAmplification, bayes_amplification, bayes_classifier
from modelkeep.core.errors import InputError, SliceError


def test_definition_on_a_case_counted_by_hand() -> None:
    """Four of ten are class 1, seven are predicted so: 0.3 more, which for the majority (class 0) is 0.3 less."""
    scores = [1.0] * 7 + [-1.0] * 3
    found = MeasureAmplification()(linear([1.0]), table(scores, [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]), seed=0)
    assert found.majority == "rest"
    assert found.amplification.value == pytest.approx(-0.3)
    assert [e.value for e in found.per_class] == pytest.approx([-0.3, 0.3])
    assert [e.value for e in found.labelled] == [0.6, 0.4]
    assert [e.value for e in found.predicted] == [0.3, 0.7]
    assert found.distance.value == pytest.approx(0.3)
    assert found.accuracy.value == 0.7
    assert found.p_value == pytest.approx(0.25)  # three errors, all in one direction: 2 / 2³


def test_of_two_equal_classes_the_second_counts_as_the_majority() -> None:
    found = MeasureAmplification()(linear([1.0]), table([1.0, 1.0, 1.0, -1.0, 2.0, -1.0], [0, 1, 1, 0, 1, 0]), seed=0)
    assert found.majority == "most"
    assert found.amplification.value == pytest.approx(1 / 6)


def labelled_by(predicted: list[int], labels: list[int]) -> tuple[Model, Data]:
    """A model of three classes that predicts what the input says."""
    model = Model(nn.Identity(), input_shape=(3,), classes=3, bounds=None)
    return model, Data(3 * torch.eye(3)[predicted], torch.tensor(labels), model.classes)


def test_many_classes_by_hand() -> None:
    model, data = labelled_by([0, 0, 0, 0, 1, 2, 2, 2], [0, 0, 1, 1, 1, 2, 2, 0])
    found = MeasureAmplification()(model, data, seed=0)
    assert [e.value for e in found.per_class] == pytest.approx([1 / 8, -2 / 8, 1 / 8])
    assert found.distance.value == pytest.approx(2 / 8)
    assert found.explanation is None
    assert "towards '1'" in str(found)


def test_swapping_errors_is_tested_against_all_swaps() -> None:
    predicted, labels = [0, 0, 0, 0, 1, 2, 2, 2], [0, 0, 1, 1, 1, 2, 2, 0]
    model, data = labelled_by(predicted, labels)
    pairs, distances = np.stack([predicted, labels]), []
    for swap in product([False, True], repeat=8):
        first, second = np.where(swap, pairs[::-1], pairs)
        distances.append(np.abs(np.bincount(first, minlength=3) - np.bincount(second, minlength=3)).sum() / 16)
    found = MeasureAmplification()(model, data, seed=0)
    assert found.p_value == pytest.approx(np.mean(np.array(distances) >= 2 / 8 - 1e-9), abs=0.04)
    assert found.by_chance == pytest.approx(np.mean(distances), abs=0.01)


def test_the_distance_holds_0_where_errors_have_no_direction() -> None:
    """A third of the labels is drawn anew: many errors, but as many one way as the other."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 600)
    fair = np.where(random.random(600) < 0.3, random.permutation(labels), labels)
    model, data = labelled_by(fair.tolist(), labels.tolist())
    found = MeasureAmplification()(model, data, seed=0)
    assert found.p_value > 0.05
    assert found.distance.low == 0.0 < found.distance.value
    unfair = np.where((labels == 0) & (random.random(600) < 0.3), 2, labels)
    model, data = labelled_by(unfair.tolist(), labels.tolist())
    found = MeasureAmplification()(model, data, seed=0)
    assert found.p_value < 0.01
    assert found.distance.low > 0.05


@pytest.mark.parametrize(("prior", "distance"), [(0.6, 0.8), (0.7, 1.2), (0.8, 1.5)])
def test_the_bayes_classifier_of_gaussian_data_shows_only_what_is_unavoidable(prior: float, distance: float) -> None:
    data = gaussian_data(n=6000, prior=prior, distance=distance)
    mean = np.full(6, distance / 6**0.5)
    weights, bias = bayes_classifier(prior, np.zeros(6), mean, np.ones(6))
    found = MeasureAmplification()(linear(weights.tolist(), bias), data, seed=0)
    split = found.explanation
    assert split is not None
    assert split.slice == "the input of the linear layer"
    assert split.prior.value == pytest.approx(prior)
    assert split.distance.low <= distance <= split.distance.high
    assert split.unavoidable.low <= bayes_amplification(prior, distance) <= split.unavoidable.high
    assert not split.avoidable.excludes(0.0)
    assert not split.check.excludes(split.unavoidable.value)
    assert split.unavoidable.value + split.avoidable.value == pytest.approx(found.amplification.value)


def test_what_a_shifted_classifier_adds_is_avoidable() -> None:
    data = gaussian_data(n=4000, prior=0.5, distance=1.0)
    found = MeasureAmplification(slice="input")(linear([1.0] * 6, 1.0), data, seed=0)
    assert found.explanation is not None
    assert found.explanation.slice == "input"
    assert found.explanation.unavoidable.value == pytest.approx(0.0, abs=1e-12)
    assert found.explanation.avoidable.low > 0.1


def test_chance_does_not_pass_for_distance() -> None:
    """With 500 features of pure noise and 60 examples, the classes are at distance 0: all may be the majority's."""
    random = np.random.default_rng(2)
    labels = torch.tensor([0] * 20 + [1] * 40)
    data = Data(torch.tensor(random.normal(size=(60, 500)), dtype=torch.float32), labels, ("rest", "most"))
    found = MeasureAmplification()(linear([0.0] * 500, 1.0), data, seed=0)
    assert found.explanation is not None
    assert found.explanation.distance.low == 0.0
    assert found.explanation.unavoidable.high == pytest.approx(1 / 3, abs=0.2)
    assert not found.explanation.avoidable.excludes(0.0)


def test_a_feature_without_noise_leaves_nothing_unavoidable() -> None:
    """The classes are infinitely far apart, so all that the model predicts in excess could be avoided."""
    y = torch.tensor([0] * 20 + [1] * 40)
    x = torch.stack([y.float(), torch.randn(60, generator=torch.Generator().manual_seed(0))], dim=1)
    found = MeasureAmplification()(linear([0.0, 0.0], 1.0), Data(x, y, ("rest", "most")), seed=0)
    split = found.explanation
    assert split is not None
    assert split.distance.low == split.distance.value == float("inf")
    assert split.unavoidable.high == 0.0
    assert split.avoidable.value == pytest.approx(1 / 3)
    assert Result.from_json(found.to_json()).to_json() == found.to_json()


def test_interval_covers_the_true_amplification() -> None:
    """Of 60 samples of a model that predicts class 1 with probability 0.7 where it is 0.6, some 95 % hold 0.1."""
    held = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        labels = (random.random(200) < 0.6).astype(int)
        labels[:2] = 0, 1
        scores = np.where(random.random(200) < 0.7, 1.0, -1.0)
        found = MeasureAmplification()(linear([1.0]), table(scores.tolist(), labels.tolist()), seed=seed)
        index = found.classes.index("most")
        held += not found.per_class[index].excludes(0.1)
    assert held >= 51


def test_prints_draws_and_comes_back_from_json() -> None:
    found = MeasureAmplification()(drawn_network(), gaussian_data(), seed=0)
    assert "unavoidable, if Gaussian" in str(found)
    assert len(found.draw().axes[0].patches) == 4  # labels and predictions of two classes
    assert Result.from_json(found.to_json()).to_json() == found.to_json()


def test_refuses_what_it_cannot_use() -> None:
    data = gaussian_data()
    with pytest.raises(InputError, match=r"two or more classes\. All 80 of 'data' are 'rest'"):
        MeasureAmplification()(drawn_network(), data.of_class("rest"), seed=0)
    with pytest.raises(SliceError, match="Cannot cut at 'nowhere'"):
        MeasureAmplification(slice="nowhere")(drawn_network(), data, seed=0)
    few = MeasureAmplification()(drawn_network(), data.take([0, 1, 198, 199]), seed=0)
    assert few.explanation is None  # no distance between classes can be told from four examples
