"""The score: accuracies that can be counted by hand, defences that only seem to hold, and verdicts from intervals."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Data, Model, Result
from modelkeep.attack import PGD, Attacked
from modelkeep.attack.adaptive import bpda, eot
from modelkeep.core.errors import InputError
from modelkeep.core.results import Estimate
from modelkeep.harden import DefendedModel, Scoreboard, Scored, score, scoreboard
from modelkeep.harden.score import verdict


class Threshold(nn.Module):
    """Class 1 from the threshold on, by the first input; what is in front may change the input."""

    def __init__(self, threshold: float, front: nn.Module | None = None) -> None:
        super().__init__()
        self.front = front if front is not None else nn.Identity()
        self.threshold = nn.Parameter(torch.tensor(threshold))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        above = self.front(x)[:, :1] - self.threshold
        return 10 * torch.cat([-above, above], dim=1)


class Steps(nn.Module):
    """Rounds to hundredths: no gradient, and no protection either."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.round(100 * x) / 100


class Noise(nn.Module):
    """A little random noise."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0.01 * torch.randn_like(x)


def model(threshold: float = 0.5, front: nn.Module | None = None) -> Model:
    return Model(Threshold(threshold, front), input_shape=(2,), classes=2)


@pytest.fixture
def line() -> Data:
    """400 points, evenly spread over the first input; class 1 from the middle on."""
    x = torch.stack([(torch.arange(400) + 0.5) / 400, torch.full((400,), 0.5)], dim=1)
    return Data(x, (x[:, 0] >= 0.5).long(), ("0", "1"), bounds=(0.0, 1.0))


def test_the_accuracies_are_those_that_one_counts(line: Data) -> None:
    # Within 0.2 of the threshold, which is 40 % of the line, an attack wins; the other model's threshold is 0.1 off.
    scored = score(model(0.5), model(0.6), line, attack=PGD(radius=0.2), seed=0)
    assert scored.undefended.value == pytest.approx(0.6, abs=0.005)
    assert scored.clean.value == pytest.approx(0.9, abs=0.005)
    # Class 1 stands from 0.8 on and class 0 until 0.4, whoever moved it by 0.2.
    assert scored.adaptive.value == pytest.approx(0.6, abs=0.005)
    assert scored.ignoring.value == pytest.approx(0.6, abs=0.005)
    assert scored.health == ()
    assert scored.verdict == "does not hold"


def test_a_defence_without_a_gradient_does_not_hold_against_whoever_knows_it(line: Data) -> None:
    defended = model(0.5, Steps())
    blind = score(model(), defended, line, attack=PGD(radius=0.2), seed=0)
    assert blind.adaptive.value > 0.85  # without a gradient to follow, only random starts find anything
    assert any("masked gradients suspected" in note for note in blind.health)
    assert blind.ignoring.value == pytest.approx(0.6, abs=0.01)  # and the one that ignores the defence shows it
    assert blind.verdict != "holds"
    knowing = score(model(), DefendedModel(defended, bpda(defended, "front")), line, attack=PGD(radius=0.2), seed=0)
    assert knowing.adaptive.value == pytest.approx(0.6, abs=0.01)
    assert knowing.health == ()


def test_a_defence_with_other_weights_holds_where_it_is_better(line: Data) -> None:
    # The undefended one looks at the sum of the inputs; an attacker of both moves it by twice the radius.
    class Sum(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sum(dim=1, keepdim=True) - 0.5

    scored = score(model(0.5, Sum()), model(), line, attack=PGD(radius=0.2), seed=0)
    assert scored.undefended.value == pytest.approx(0.2, abs=0.01)
    assert scored.adaptive.value == pytest.approx(0.6, abs=0.01)
    assert scored.verdict == "holds"


def test_a_random_defence_is_attacked_in_the_mean(line: Data) -> None:
    defended = model(0.5, Noise())
    alone = score(model(), defended, line, attack=PGD(radius=0.2), seed=0)
    assert any("random" in note for note in alone.health)
    known = score(model(), DefendedModel(defended, eot(defended, 8)), line, attack=PGD(radius=0.2), seed=0)
    assert not any("random" in note for note in known.health)
    assert known.adaptive.value == pytest.approx(0.6, abs=0.05)
    again = score(model(), DefendedModel(defended, eot(defended, 8)), line, attack=PGD(radius=0.2), seed=0)
    assert (again.clean, again.adaptive, again.ignoring) == (known.clean, known.adaptive, known.ignoring)


def test_the_undefended_network_is_attacked_once_for_all(line: Data) -> None:
    attacked = []

    class Counting(PGD):
        def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Attacked:
            attacked.append(model)
            return super().__call__(model, data, seed=seed)

    undefended, first, second = model(), model(0.6), model(0.7)
    found = scoreboard(
        undefended,
        {"near": first, "far": DefendedModel(second)},
        line,
        attack=Counting(norm="l2", radius=0.1, steps=5),
        seed=0,
    )
    assert attacked == [undefended, first, second]
    assert list(found.scores) == ["near", "far"]
    assert all(each.undefended == found.attacked for each in found.scores.values())
    printed = str(found)
    assert all(word in printed for word in ("near", "far", "none", "attack knows it", "does not hold"))
    assert len(found.draw().get_axes()) == 1
    assert len(found.rows()) == 3
    again = Result.from_json(found.to_json())
    assert isinstance(again, Scoreboard)
    assert str(again) == printed
    one = found.scores["near"]
    assert len(one.draw().get_axes()) == 1
    assert isinstance(Result.from_json(one.to_json()), Scored)
    assert ("verdict", one.verdict) in one.rows()
    with pytest.raises(InputError, match="at least one named defence"):
        scoreboard(undefended, {}, line, attack=PGD(radius=0.1), seed=0)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8], ids=["none", "some", "most"])
def test_a_defence_that_does_nothing_never_holds(share: float) -> None:
    for n in (10, 100, 1000, 10_000):
        same = Estimate.rate(round(share * n), n)
        assert verdict(same, same) != "holds"
    assert verdict(same, same) == "does not hold"


def test_a_worse_defence_does_not_hold_and_few_examples_say_nothing() -> None:
    assert verdict(Estimate.rate(50, 100), Estimate.rate(10, 100)) == "does not hold"
    assert verdict(Estimate.rate(0, 3), Estimate.rate(3, 3)) == "unclear"


def test_a_model_that_only_guesses_holds_nothing() -> None:
    """Nobody can change the answer of a model that always gives the same one."""
    x = torch.linspace(0, 1, 200)[:, None]
    data = Data(x, (x[:, 0] > 0.4).long(), ("low", "high"))
    weak = Model(nn.Linear(1, 2), input_shape=(1,), classes=data.classes)
    constant = Model(nn.Linear(1, 2), input_shape=(1,), classes=data.classes)
    with torch.no_grad():
        for model, slope in ((weak, 1.0), (constant, 0.0)):
            model.module.get_parameter("weight").copy_(torch.tensor([[-slope], [slope]]))
            model.module.get_parameter("bias").copy_(torch.tensor([0.4, -0.4]) if slope else torch.tensor([0.0, 2.0]))
    found = score(weak, constant, data, attack=PGD(radius=0.35), seed=0)
    assert found.adaptive.low > found.undefended.high
    assert found.verdict == "does not hold"
