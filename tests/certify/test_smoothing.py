"""Randomized smoothing against linear classifiers, whose smoothed form is known exactly."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import pytest
import torch
from scipy.special import ndtr
from scipy.stats import binomtest
from torch import nn

from core.contract.little import examples, images, table
from modelkeep import Data, Model
from modelkeep.attack import checkpoint, resume_from
from modelkeep.certify.smoothing import ABSTAINED, NoisyTraining, Smooth, Smoothed
from modelkeep.core.contract import check_method
from modelkeep.core.errors import InputError, ModelError
from modelkeep.core.results import Result
from modelkeep.training import Objective, Recipe, cross_entropy, fit
from modelkeep.zoo.datasets import load

NORMAL = torch.tensor([0.6, 0.0, -0.8])  # of unit length: a margin is a distance


def linear(offset: float = 0.0) -> Model:
    """Class 0 where `NORMAL · x + offset > 0`."""
    module = nn.Linear(3, 2)
    with torch.no_grad():
        module.weight.copy_(torch.stack([NORMAL, -NORMAL]))
        module.bias.copy_(torch.tensor([offset, -offset]))
    return Model(module, input_shape=(3,), classes=("inside", "outside"), bounds=None)


def at_distances(distances: torch.Tensor) -> Data:
    """Points of class 0 so far from the boundary, each elsewhere along it."""
    along = torch.tensor([0.8, 1.0, 0.6])
    along = along - (along @ NORMAL) * NORMAL
    x = distances[:, None] * NORMAL + torch.arange(len(distances))[:, None] * along
    return Data(x, torch.zeros(len(x), dtype=torch.int64), ("inside", "outside"))


def test_the_radius_tends_to_the_true_distance_of_a_linear_classifier() -> None:
    # Under noise it answers 0 with probability Φ(distance / σ): the radius that is certified is the distance itself.
    distances = torch.tensor([0.1, 0.4, 0.8])
    few, many = (Smooth(sigma=0.5, samples=n)(linear(), at_distances(distances), seed=1) for n in (300, 30_000))
    assert many.prediction.tolist() == [0, 0, 0]
    assert (many.radius <= distances).all()
    assert (many.radius > distances - 0.03).all()
    assert (few.radius < many.radius).all()


def test_the_bound_is_that_of_scipys_exact_test() -> None:
    data, model = at_distances(torch.tensor([0.3])), linear()
    found = Smooth(sigma=0.5, samples=500, alpha=0.01)(model, data, seed=3)
    share = ndtr(float(found.radius) / 0.5)
    bounds = {k: binomtest(k, 500, alternative="greater").proportion_ci(0.99).low for k in range(330, 400)}
    hits = min(bounds, key=lambda k: abs(share - bounds[k]))
    assert share == pytest.approx(bounds[hits], abs=1e-12)
    assert abs(hits / 500 - ndtr(0.6)) < 4 * math.sqrt(0.25 / 500)


def test_few_certificates_are_wrong() -> None:
    # 400 points at one distance, each with noise of its own: a certificate is wrong where its radius is larger.
    data = at_distances(torch.full((400,), 0.2))
    found = Smooth(sigma=0.5, samples=200, selection=20, alpha=0.1)(linear(), data, seed=0)
    wrong = int(((found.radius > 0.2) | (found.prediction == 1)).sum())
    assert binomtest(wrong, 400, 0.1, alternative="greater").pvalue > 1e-3
    assert wrong > 5  # an interval that was far too wide would never be wrong


def test_nothing_within_the_radius_changes_the_smoothed_answer() -> None:
    # The closed form of the smoothed classifier, and the worst direction: straight to the boundary.
    data = at_distances(torch.linspace(-1.0, 1.0, 21))
    found = Smooth(sigma=0.5, samples=2_000)(linear(offset=0.1), data, seed=5)
    side = torch.where(found.prediction == 0, -1.0, 1.0)[:, None]
    attacked = data.x + side * found.radius.float()[:, None] * NORMAL
    answer = (attacked @ NORMAL + 0.1 < 0).long()
    sure = found.prediction != ABSTAINED
    assert int(sure.sum()) > 15
    assert torch.equal(answer[sure], found.prediction[sure])


def test_an_input_on_the_boundary_gets_no_answer() -> None:
    found = Smooth(sigma=0.5, samples=1_000)(linear(), at_distances(torch.zeros(20)), seed=0)
    assert (found.prediction == ABSTAINED).all()
    assert (found.radius == 0).all()
    assert found.abstained.value == 1


@pytest.mark.parametrize("batch_size", [1, 7, 250, 5_000])
def test_the_batch_size_changes_nothing(batch_size: int) -> None:
    data = at_distances(torch.tensor([-0.4, 0.02, 0.3, 0.7]))
    settings = {"sigma": 0.4, "samples": 330}
    want = Smooth(**settings, batch_size=100)(linear(), data, seed=2)  # type: ignore[arg-type]
    found = Smooth(**settings, batch_size=batch_size)(linear(), data, seed=2)  # type: ignore[arg-type]
    assert torch.equal(found.prediction, want.prediction)
    assert torch.equal(found.radius, want.radius)


def test_neither_do_the_other_inputs_but_the_seed_does() -> None:
    data = at_distances(torch.tensor([0.3, 0.5, 0.7]))
    whole = Smooth(sigma=0.5, samples=500)(linear(), data, seed=0)
    last = Smooth(sigma=0.5, samples=500)(linear(), data.take([2]), seed=0)
    other = Smooth(sigma=0.5, samples=500)(linear(), data, seed=1)
    assert float(last.radius) == float(whole.radius[2])
    assert not torch.equal(other.radius, whole.radius)


def test_giving_up_at_a_wanted_radius_keeps_what_reaches_it() -> None:
    data = at_distances(torch.tensor([0.0, 0.1, 0.4, 0.6, 1.0]))
    whole = Smooth(sigma=0.5, samples=4_000)(linear(), data, seed=0)
    wanted = Smooth(sigma=0.5, samples=4_000, radius=0.5, batch_size=200)(linear(), data, seed=0)
    reaches = whole.radius > 0.5
    assert reaches.tolist() == [False, False, False, True, True]
    assert torch.equal(wanted.radius, torch.where(reaches, whole.radius, 0.0))
    assert wanted.passes < 0.75 * whole.passes
    assert wanted.certified_accuracy(0.5) == whole.certified_accuracy(0.5)


def test_it_says_what_it_cost() -> None:
    data = at_distances(torch.tensor([0.6, 0.8]))
    found = Smooth(sigma=0.5, samples=1_000, selection=50)(linear(), data, seed=0)
    assert found.passes == 2 * 1_050
    assert found.cost == 1_050
    assert "1,050 plain predictions" in str(found)


def test_no_noise_but_so_few_samples_bound_the_radius() -> None:
    found = Smooth(sigma=0.5, samples=100, alpha=0.001)(linear(), at_distances(torch.tensor([50.0])), seed=0)
    assert float(found.radius) == found.largest
    assert ndtr(found.largest / 0.5) == pytest.approx(0.001 ** (1 / 100))


def test_certified_accuracy_counts_only_right_answers() -> None:
    data = at_distances(torch.tensor([0.5, 1.0, -1.0]))  # the last lies on the other side: wrong
    found = Smooth(sigma=0.5, samples=1_000)(linear(), data, seed=0)
    assert found.clean.value == pytest.approx(2 / 3)
    assert found.certified_accuracy().value == pytest.approx(2 / 3)
    assert found.certified_accuracy(0.7).value == pytest.approx(1 / 3)


def test_a_run_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)
    data, model = at_distances(torch.tensor([0.3, 0.5, 0.7])), linear()
    want = Smooth(sigma=0.5, samples=500, batch_size=512)(model, data, seed=0)
    calls = 0

    def stop_in_the_last(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 7:  # the clean pass, then selection and estimation of each input
            raise KeyboardInterrupt

    handle = model.module.register_forward_pre_hook(stop_in_the_last)
    with resume_from(tmp_path), pytest.raises(KeyboardInterrupt):
        Smooth(sigma=0.5, samples=500, batch_size=512)(model, data, seed=0)
    with resume_from(tmp_path):
        found = Smooth(sigma=0.5, samples=500, batch_size=512)(model, data, seed=0)
    handle.remove()
    assert calls == 7 + 3
    assert torch.equal(found.radius, want.radius)
    assert found.passes == want.passes


def test_training_under_noise_helps_smoothing() -> None:
    train, test = load("digits", "train"), load("digits", "test").first(40)
    found = {}
    objectives: dict[str, Objective] = {"plain": cross_entropy, "noisy": NoisyTraining(0.5)}
    for name, objective in objectives.items():
        torch.manual_seed(0)
        module = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        model = Model(module, input_shape=train.input_shape, classes=train.classes)
        fit(model, train, objective, Recipe(epochs=12, learning_rate=1e-2), seed=0)
        found[name] = Smooth(sigma=0.5, samples=500)(model, test, seed=0).certified_accuracy(0.5)
    assert found["noisy"].value > found["plain"].value


def test_the_noise_of_training_is_the_steps() -> None:
    data, objective = at_distances(torch.linspace(-1, 1, 8)), NoisyTraining(0.3)
    first, second = (copy.deepcopy(linear()) for _ in range(2))
    fit(first, data, objective, Recipe(steps=5), seed=0)
    with torch.random.fork_rng():
        torch.manual_seed(99)
        fit(second, data, objective, Recipe(steps=5), seed=0)
    assert first.fingerprint() == second.fingerprint()


@pytest.mark.parametrize("make", [images, table])
def test_it_keeps_the_contract(make: object) -> None:
    assert callable(make)
    model = make()
    check_method(Smooth(sigma=0.1, samples=20), model, examples(model))


def test_it_draws_itself_and_comes_back_from_json() -> None:
    found = Smooth(sigma=0.5, samples=300)(linear(), at_distances(torch.tensor([0.3, 0.6])), seed=0)
    again = Result.from_json(found.to_json())
    assert isinstance(again, Smoothed)
    assert torch.equal(again.radius, found.radius)
    assert found.draw().axes[0].get_xlabel() == "radius, l2"


@pytest.mark.parametrize(
    ("name", "value"),
    [("sigma", 0.0), ("samples", 0), ("selection", 0), ("alpha", 1.0), ("radius", -1.0), ("batch_size", 0)],
    ids=["sigma", "samples", "selection", "alpha", "radius", "batch-size"],
)
def test_what_is_out_of_range_is_refused(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"'{name}' parameter of Smooth"):
        Smooth(**{"sigma": 0.5, name: value})  # type: ignore[arg-type]


def test_a_radius_that_no_sample_could_prove_is_refused() -> None:
    with pytest.raises(InputError, match=r"no radius can be above 1\.1, and 3 is wanted"):
        Smooth(sigma=0.5, samples=500, radius=3.0)(linear(), at_distances(torch.ones(1)), seed=0)
    with pytest.raises(InputError, match="samples"):
        Smooth(sigma=0.5, samples=5)(linear(), at_distances(torch.ones(1)), seed=0)
    with pytest.raises(InputError, match="NoisyTraining"):
        NoisyTraining(0.0)


def test_a_network_that_breaks_under_noise_says_so() -> None:
    class Root(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.stack([x.sum(dim=1).sqrt(), x.sum(dim=1)], dim=1)  # fine within the bounds, not outside

    model = Model(Root(), input_shape=(3,), classes=2)
    data = Data(torch.full((1, 3), 0.1), torch.zeros(1, dtype=torch.int64), model.classes)
    with pytest.raises(ModelError, match=r"under noise of sigma 0\.5"):
        Smooth(sigma=0.5)(model, data, seed=0)
