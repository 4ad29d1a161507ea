"""Answers: counted over draws, with none where the logits are NaN; a random model is told from one that rounds."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from modelkeep import Data, Model, Result
from modelkeep.attack import FMN, PGD, Attacked, robustness_curve
from modelkeep.attack.answers import NO_ANSWER, Answers, answers_of, ask, is_random
from modelkeep.core.results import Estimate


class Coin(nn.Module):
    """Answers class 1 with the chance that the first value says; where that is not above `edge`, always 0."""

    def __init__(self, edge: float) -> None:
        super().__init__()
        self.edge = edge

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chance = x[:, 0].detach()
        one = (torch.rand(len(x)) < chance) & (chance > self.edge)
        score = 0.5 - one.float() + 1e-3 * (0.5 - x[:, 0])
        return torch.stack([score, -score], dim=1)


def coin(edge: float = 0.0) -> Model:
    return Model(Coin(edge), input_shape=(2,), classes=2)


def test_answers_are_counted() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0], [torch.nan, 5.0, 0.0], [torch.inf, 1.0, 0.0], [-torch.inf, 1.0, 0.0]])
    assert answers_of(logits).tolist() == [2, NO_ANSWER, NO_ANSWER, 1]
    once = Answers.once(logits)
    assert (once.labels.tolist(), once.draws) == ([2, -1, -1, 1], 1)
    assert once.share(torch.tensor([2, 0, 0, 0])).tolist() == [1, 0, 0, 0]
    model, x = coin(), torch.tensor([[0.1, 0.0], [0.8, 0.0]])
    with model.frozen(seed=0):
        many = ask(model, x, draws=2000, batch_size=1)
    assert (many.labels.tolist(), many.draws) == ([0, 1], 2000)
    torch.testing.assert_close(many.share(torch.tensor([1, 1])), torch.tensor([0.1, 0.8]).double(), atol=0.03, rtol=0)


def test_what_rounds_is_not_random() -> None:
    x = torch.rand(40, 2, generator=torch.Generator().manual_seed(0))
    assert is_random(coin(), x)
    assert not is_random(Model(nn.Linear(2, 3), input_shape=(2,), classes=3), x)

    class Rounding(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([x, 1 - x], dim=1)[:, :2] * (1 + 1e-6 * torch.rand(()))

    assert not is_random(Model(Rounding(), input_shape=(2,), classes=2), x)


def test_a_model_that_is_random_only_where_it_is_attacked_is_found_out() -> None:
    """Its clean answers are always the same; those to what was found are a coin's."""
    model = coin(edge=0.6)
    data = Data(torch.full((60, 2), 0.55), torch.zeros(60, dtype=torch.int64), model.classes)
    found = PGD(radius=0.1, steps=10)(model, data, seed=0)
    assert found.draws > 1
    assert any("the model is random" in note for note in found.health)
    chance = torch.where(found.adversarial[:, 0] > 0.6, found.adversarial[:, 0], 0.0)
    assert float(chance.mean()) > 0.3
    assert abs(1 - found.robust_accuracy.value - float(chance.mean())) < 0.05
    unmoved = PGD(radius=0.01, steps=10)(model, data, seed=0)
    assert (unmoved.draws, unmoved.health) == (1, ())


def test_the_smallest_change_is_that_to_where_most_answers_are_wrong() -> None:
    model = coin()
    x = torch.tensor([[0.2, 0.5]]).repeat(20, 1)
    data = Data(x, torch.zeros(20, dtype=torch.int64), model.classes)
    found = PGD(radius=0.5, steps=20)(model, data, seed=0)
    assert found.robust_accuracy.value < 0.4
    again = Result.from_json(found.to_json())
    assert isinstance(again, Attacked)
    assert found.right_after is not None
    assert again.right_after is not None
    assert torch.equal(again.right_after, found.right_after)
    plain = FMN(norm="linf", steps=5)(Model(nn.Linear(2, 2), input_shape=(2,), classes=2), data, seed=0)
    assert "draws" not in plain.to_json().split('"provenance"')[0]


def test_the_curve_of_a_random_model_is_one_of_means() -> None:
    model = coin()
    data = Data(torch.full((50, 2), 0.2), torch.zeros(50, dtype=torch.int64), model.classes)
    curve = robustness_curve(model, data, PGD(radius=0.1, steps=10), [0.1, 0.3], seed=0)
    values = [estimate.value for estimate in curve.accuracy]
    np.testing.assert_allclose(values, [0.8, 0.7, 0.5], atol=0.06)


def test_the_interval_of_a_mean_of_shares_holds_the_mean() -> None:
    """At least as often as it says: with shares from a wide and from a narrow distribution."""
    generator = np.random.default_rng(0)
    for a, b in ((0.3, 0.3), (5.0, 5.0), (0.2, 1.0)):
        held = [not Estimate.rate(generator.beta(a, b, 60).sum(), 60).excludes(a / (a + b)) for _ in range(300)]
        assert np.mean(held) >= 0.95
