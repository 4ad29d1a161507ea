"""Parameter stealing: drawn networks come back, guarded ones do not, and lemma 1 holds with numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from modelkeep import Model
from modelkeep.core.access import Scores
from modelkeep.core.card import Preprocessing
from modelkeep.core.errors import InputError, ModelError
from modelkeep.core.results import Result
from modelkeep.extract.parameters import Recovery, Stolen, compare, lemma_one, steal
from modelkeep.extract.parameters.kinks import kinks
from modelkeep.extract.parameters.oracle import Array, Unrecoverable
from modelkeep.extract.target import Guarded
from modelkeep.guard.defence import Defence
from modelkeep.guard.defences.modelguard_s import ModelGuardS
from modelkeep.guard.defences.modelguard_w import ModelGuardW
from modelkeep.guard.defences.rounding import Rounding

GUARDS: tuple[Defence, ...] = (ModelGuardS(1.0), ModelGuardS(0.05), ModelGuardW(1.0), ModelGuardW(0.05), Rounding(1))


def drawn_network(seed: int, width: int, units: int, classes: int, dtype: torch.dtype = torch.float64) -> Model:
    """A random network whose units all switch within two steps of the origin."""
    random = torch.Generator().manual_seed(seed)
    hidden = nn.Linear(width, units)
    module = nn.Sequential(hidden, nn.ReLU(), nn.Linear(units, classes)).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=random, dtype=torch.float64) / width**0.5)
        away = 4 * torch.rand(units, generator=random, dtype=torch.float64) - 2
        hidden.bias.copy_(hidden.weight.norm(dim=1) * away)
    return Model(module.to(dtype), input_shape=(width,), classes=classes, bounds=None)


def inputs(model: Model, n: int = 500) -> torch.Tensor:
    return torch.randn(n, *model.input_shape, generator=torch.Generator().manual_seed(9), dtype=model.dtype)


@given(st.integers(0, 10**6), st.integers(2, 10), st.integers(1, 8), st.integers(2, 5))
def test_drawn_networks_come_back_exactly(seed: int, width: int, units: int, classes: int) -> None:
    model = drawn_network(seed, width, units, classes)
    view = Scores(model)
    stolen = steal(view, seed=seed)
    assert stolen.recovered, stolen.failure
    assert stolen.queries == view.queries
    recovery = compare(stolen, model, inputs(model))
    assert recovery.found == units
    assert recovery.relative_error <= 1e-5
    assert recovery.largest_difference <= 1e-6
    assert recovery.fidelity.value == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_a_float32_victim_gives_its_weights_to_float32_precision(seed: int) -> None:
    model = drawn_network(seed, 6, 5, 4, torch.float32)
    recovery = compare(steal(Scores(model), seed=seed), model, inputs(model))
    assert recovery.found == recovery.units == 5
    assert recovery.relative_error <= 1e-3
    assert recovery.cosine > 0.999  # the thesis reached 0.98
    assert recovery.fidelity.value >= 0.99


def test_preprocessing_and_the_shape_of_inputs_belong_to_the_first_layer() -> None:
    torch.manual_seed(3)
    module = nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3)).double()
    preprocessing = Preprocessing(mean=(0.3,), std=(0.5,))
    model = Model(module, input_shape=(1, 2, 3), classes=3, preprocessing=preprocessing)
    recovery = compare(steal(Scores(model)), model, inputs(model))
    assert recovery.relative_error <= 1e-5


@pytest.mark.parametrize("defence", GUARDS, ids=lambda defence: f"{defence.name}-{GUARDS.index(defence)}")
def test_guarded_answers_give_no_network_and_it_says_so(defence: Defence) -> None:
    model = drawn_network(1, 5, 4, 3)
    stolen = steal(Guarded(model, defence))
    assert not stolen.recovered
    assert stolen.failure
    assert "no:" in str(stolen)
    assert len(stolen.first) == 0
    with pytest.raises(ModelError, match="No network was recovered"):
        stolen.model()


def test_the_budget_of_the_target_ends_the_theft() -> None:
    stolen = steal(Scores(drawn_network(0, 5, 4, 3), budget=200))
    assert stolen.failure is not None
    assert "budget is 200" in stolen.failure
    assert stolen.queries <= 200


def test_a_smooth_network_is_not_taken_for_a_relu_network() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    assert not steal(Scores(Model(module, input_shape=(4,), classes=3))).recovered


def test_kinks_of_a_known_line() -> None:
    places = np.array([-2.5, 0.1, 0.1005, 3.0])
    bends = np.array([[1.0, -1.0, 0.0], [0.5, 1.0, -1.5], [-2.0, 1.0, 1.0], [0.01, -0.01, 0.0]])

    def ask(t: Array) -> Array:
        bent: Array = np.maximum(t[:, None] - places, 0) @ bends
        return bent + np.stack([t, -t, 0 * t], axis=1)

    found = kinks(ask, reach=10, noise=1e-15, most=8)
    np.testing.assert_allclose(found.at, places, atol=1e-9)
    np.testing.assert_allclose(found.jumps, bends, atol=1e-7)


def test_a_jump_is_no_kink() -> None:
    with pytest.raises(Unrecoverable, match="jump or bend"):
        kinks(lambda t: np.stack([t > 0.3, t <= 0.3], axis=1).astype(float), reach=10, noise=1e-15, most=8)


def test_results_are_stored_and_drawn() -> None:
    model = drawn_network(0, 3, 2, 3)
    stolen = steal(Scores(model))
    again = Result.from_json(stolen.to_json())
    assert isinstance(again, Stolen)
    assert torch.equal(again.last, stolen.last)
    recovery = compare(stolen, model, inputs(model))
    assert isinstance(Result.from_json(recovery.to_json()), Recovery)
    assert recovery.draw().axes[0].get_xlabel() == "the owner's"
    assert "2 of 2" in str(recovery)


def regression(seed: int) -> Model:
    torch.manual_seed(seed)
    return Model(nn.Linear(6, 4).double(), input_shape=(6,), classes=4)


@given(st.integers(0, 10**6), st.sampled_from([ModelGuardS(0.3), ModelGuardW(0.3), ModelGuardW(1.0), Rounding(1)]))
def test_lemma_one_holds_with_numbers(seed: int, defence: Defence) -> None:
    model = regression(seed)
    queries = 3 * torch.randn(7, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    target = Guarded(model, defence)
    target.probs(3 * torch.randn(40, 6, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64))
    distance = lemma_one(target, model, queries)
    assert distance.excess_loss > 0
    assert distance.squared_distance >= distance.bound > 0


def test_lemma_ones_other_half_clean_answers_give_the_parameters() -> None:
    model = regression(0)
    queries = 3 * torch.randn(7, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    distance = lemma_one(Scores(model), model, queries)
    assert distance.squared_distance < 1e-20 < distance.squared_norm
    assert abs(distance.bound) < 1e-12
    assert distance.draw().axes


def test_lemma_ones_smoothness_is_one() -> None:
    """The Hessian of the mean cross entropy, by autograd, never has an eigenvalue above M."""
    model = regression(2)
    queries = torch.randn(7, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    smoothness = lemma_one(Scores(model), model, queries).smoothness
    design = torch.cat([queries, torch.ones(7, 1)], dim=1)
    labels = model.probs(queries)

    def loss(weights: torch.Tensor) -> torch.Tensor:
        return -(labels * (design @ weights.reshape(7, 4)).log_softmax(dim=1)).sum(dim=1).mean()

    largest = 0.0
    for seed in range(20):
        weights = 0.1 * seed * torch.randn(28, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        hessian = torch.func.jacrev(torch.func.jacrev(loss))(weights)
        largest = max(largest, float(torch.linalg.eigvalsh(hessian)[-1]))
    assert smoothness / 4 < largest <= smoothness * (1 + 1e-12)


def test_what_cannot_be_compared_is_said() -> None:
    model = drawn_network(0, 3, 2, 3)
    with pytest.raises(InputError, match="one linear layer"):
        lemma_one(Scores(model), model, torch.zeros(4, 3).double())
    with pytest.raises(InputError, match="7 queries"):
        lemma_one(Scores(regression(0)), regression(0), torch.zeros(4, 6).double())
    with pytest.raises(InputError, match="one hidden layer"):
        compare(steal(Scores(model)), regression(0), inputs(regression(0)))
    with pytest.raises(InputError, match="most_units"):
        steal(Scores(model), most_units=0)
