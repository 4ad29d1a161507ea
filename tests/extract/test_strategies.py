"""Query strategies: what is asked, in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.core.errors import InputError
from modelkeep.extract.strategies import AdaptiveKnockoff, Harvest, JacobianAugmentation, Knockoff, Listed, Thief


def pool(count: int = 60) -> Data:
    x = torch.rand(count, 4, generator=torch.Generator().manual_seed(0))
    return Data(x, torch.arange(count) % 3, ("a", "b", "c"), bounds=(0.0, 1.0))


def linear(weights: torch.Tensor) -> Model:
    module = nn.Linear(weights.shape[1], len(weights))
    with torch.no_grad():
        module.weight.copy_(weights)
    return Model(module, input_shape=(weights.shape[1],), classes=len(weights))


def thief(model: Model, seed: int = 0) -> Thief:
    """One that need not learn: its substitute is given."""
    return Thief(lambda x, seed: model.probs(x), lambda x, answers: model, (0.0, 1.0), seed)


def assert_answers_belong(harvest: Harvest, model: Model) -> None:
    torch.testing.assert_close(harvest.answers, model.probs(harvest.questions))


def test_a_list_is_asked_as_it_is() -> None:
    model = linear(torch.eye(4)[:3])
    harvest = Listed()(thief(model), pool())
    assert torch.equal(harvest.questions, pool().x)
    assert len(Listed(5)(thief(model), pool()).questions) == 5
    assert_answers_belong(harvest, model)


def test_knockoff_draws_different_inputs_by_the_seed() -> None:
    model, data = linear(torch.eye(4)[:3]), pool()
    one, two, other = (Knockoff(20)(thief(model, seed), data) for seed in (0, 0, 1))
    assert torch.equal(one.questions, two.questions)
    assert not torch.equal(one.questions, other.questions)
    assert len(torch.unique(one.questions, dim=0)) == 20
    assert one.original is not None
    assert torch.equal(one.original, data.sample(20, 0).y)
    assert_answers_belong(one, model)


def test_the_bandit_goes_where_there_is_something_to_learn() -> None:
    """Of class a every answer is the same and known; of b and c they are certain, different and not known."""
    data = pool(600)
    known = torch.tensor([0.34, 0.33, 0.33])

    def ask(x: torch.Tensor, seed: int) -> torch.Tensor:
        boring = data.y[(x[:, None] == data.x).all(dim=2).int().argmax(dim=1)] == 0
        certain = torch.eye(3)[(x[:, 0] * 1000).long() % 3]
        return torch.where(boring[:, None], known, certain)

    flat = linear(torch.zeros(3, 4))
    harvest = AdaptiveKnockoff(150, rounds=10)(replace(thief(flat), ask=ask), data)
    assert len(torch.unique(harvest.questions, dim=0)) == 150
    assert harvest.original is not None
    asked_late = harvest.original[75:].bincount(minlength=3)
    assert asked_late[0] < 0.5 * asked_late[1:].double().mean()


def test_augmentation_steps_along_the_sign_of_the_gradient() -> None:
    """For a linear substitute of two classes, that is ± sign(w₁ − w₀), whatever the target class."""
    weights = torch.tensor([[1.0, -2.0, 0.5, 3.0], [-1.0, 1.0, 2.0, -0.5]])
    model, seeds = linear(weights), pool(8).sample(8, 0)
    harvest = JacobianAugmentation(16, 8, step=0.01, iterations=1)(thief(model), pool(8))
    assert torch.equal(harvest.questions[:8], seeds.x)
    moved = (harvest.questions[8:] - seeds.x) / 0.01
    direction = (weights[1] - weights[0]).sign()
    inside = (harvest.questions[8:] > 0) & (harvest.questions[8:] < 1)
    signs = {float(row[ok][0] / direction[ok][0]) for row, ok in zip(moved, inside, strict=True)}
    assert {round(sign) for sign in signs} == {-1, 1}  # both classes were drawn
    for row, ok in zip(moved, inside, strict=True):
        torch.testing.assert_close((row[0] / direction[0]) * direction[ok], row[ok], atol=1e-3, rtol=0)
    assert_answers_belong(harvest, model)


def test_augmentation_doubles_until_the_budget_and_stays_within_the_bounds() -> None:
    sizes: list[int] = []
    model = linear(torch.eye(4)[:3])

    def ask(x: torch.Tensor, seed: int) -> torch.Tensor:
        sizes.append(len(x))
        return model.probs(x)

    harvest = JacobianAugmentation(50, 10, step=0.5)(replace(thief(model), ask=ask), pool())
    assert sizes == [10, 10, 20, 10]
    assert len(harvest.questions) == 50
    assert harvest.questions.min() >= 0
    assert harvest.questions.max() <= 1


def test_impossible_budgets_are_refused() -> None:
    with pytest.raises(InputError, match="'queries' parameter of AdaptiveKnockoff"):
        AdaptiveKnockoff(61)(thief(linear(torch.eye(4)[:3])), pool())
    with pytest.raises(InputError, match="'seeds' parameter of JacobianAugmentation"):
        JacobianAugmentation(10, 60)
    with pytest.raises(InputError, match="Cannot draw 61"):
        Knockoff(61)(thief(linear(torch.eye(4)[:3])), pool())
