"""Attacks: what they ask, what they see of the answers, and what S4L learns."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from modelkeep import Data, Model
from modelkeep.core.access import Scores
from modelkeep.extract.attacks import Combined, LabelsOnly, Naive, Neighbours, Repeated, Smoothing
from modelkeep.extract.bayes import PartialBayes
from modelkeep.extract.extraction import Extract
from modelkeep.extract.restorer import DDAEPlus
from modelkeep.extract.strategies import JacobianAugmentation
from modelkeep.extract.substitute import Rotations, TwoHeaded, train_substitute
from modelkeep.extract.target import Guarded
from modelkeep.guard.defences.modelguard_s import ModelGuardS
from modelkeep.guard.defences.unordered_quantiser import Unordered
from modelkeep.training import Recipe, Step

RECIPE = Recipe(epochs=8, batch_size=64, learning_rate=3e-3)


def unsure(seed: int = 0) -> Model:
    """A model with predictions all over the simplex of three classes."""
    generator = torch.Generator().manual_seed(seed)
    module = nn.Linear(4, 3)
    with torch.no_grad():
        module.weight.copy_(4 * torch.randn(3, 4, generator=generator))
        module.bias.copy_(-module.weight.sum(dim=1) / 2)
    return Model(module, input_shape=(4,), classes=3)


def questions(count: int) -> torch.Tensor:
    return torch.rand(count, 4, generator=torch.Generator().manual_seed(1))


def test_to_ask_twice_gains_nothing_against_ordered_quantisation() -> None:
    model, x = unsure(), questions(500)
    once, twice = (Repeated(times).ask(Guarded(model, ModelGuardS(0.5)), x, 0) for times in (1, 2))
    assert torch.equal(once, twice)


def test_to_ask_twice_gains_something_against_unordered_quantisation() -> None:
    model, x = unsure(), questions(500)
    once, twice = (Repeated(times).ask(Guarded(model, Unordered(0.2)), x, 0) for times in (1, 2))
    changed = (once != twice).any(dim=1)
    assert changed.sum() > 10
    before, after = ((each - model.probs(x))[changed].norm(dim=1).mean() for each in (once, twice))
    assert after < 0.8 * before


def test_the_top_1_attack_sees_labels_only(victim: Model, halves: tuple[Data, Data], test_digits: Data) -> None:
    """A target that is surer of everything gives the same copy, also where the strategy looks at the answers."""
    surer = Model.from_card(nn.Sequential(victim.module, Scaled(3.0)), victim.card)
    strategy = JacobianAugmentation(120, 60)
    one, two = (
        Extract(halves[1], strategy, LabelsOnly(), recipe=RECIPE, clean=each)(Scores(each), test_digits, seed=0)
        for each in (victim, surer)
    )
    assert one.substitute.fingerprint() == two.substitute.fingerprint()


class Scaled(nn.Module):
    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = by

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.by * x


def test_smoothing_averages_the_answers_to_three_copies(victim: Model, halves: tuple[Data, Data]) -> None:
    target, x = Scores(victim), halves[1].x[:20]
    answers = Smoothing().ask(target, x, 5)
    assert target.queries == 60
    generator = torch.Generator().manual_seed(5)
    copies = [Smoothing().augmentation(x, (0.0, 1.0), generator) for _ in range(3)]
    torch.testing.assert_close(answers, sum(victim.probs(copy) for copy in copies) / 3)
    assert not torch.equal(copies[0], copies[1])


def test_the_loss_of_s4l_is_the_papers(small_cnn: Model) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(5, 1, 8, 8, generator=generator)
    answers = torch.rand(9, 4, generator=generator).softmax(dim=1)
    index = torch.tensor([8, 0, 3, 4, 1])
    module = TwoHeaded(small_cnn.module, seed=0)
    model = Model.from_card(module, small_cnn.card)
    found = Rotations(answers, "")(model, x, torch.zeros(5), Step(0, 1, 1, index, generator))
    assert isinstance(found, tuple)
    features = small_cnn.module[:-1]  # type: ignore[index]
    expected = cross_entropy(small_cnn.forward(x), answers[index])
    for j in range(4):
        for image in x:
            turned = module.turned(features(torch.rot90(image, j, (1, 2))[None]))
            expected = expected + cross_entropy(turned, torch.tensor([j])) / (4 * len(x))
    torch.testing.assert_close(found[0], expected)


def test_s4l_leaves_a_plain_network(halves: tuple[Data, Data], victim: Model) -> None:
    x = halves[1].x[:100]
    copied = train_substitute(Scores(victim), x, victim.probs(x), recipe=RECIPE, rotations=True, seed=0)
    assert not any(isinstance(part, TwoHeaded) for part in copied.module.modules())
    assert not any(part._forward_pre_hooks for part in copied.module.modules())
    assert (copied.predict(x) == victim.predict(x)).double().mean() > 0.5


def test_an_attack_says_around_what_its_table_was_drawn() -> None:
    assert PartialBayes().table_source == "clean"
    assert DDAEPlus("answers").table_source == "answers"
    assert Combined(Naive(), PartialBayes(torch.eye(3))).table_source == "given"
    assert LabelsOnly().table_source is None


def test_neighbours_average_over_noisy_copies(victim: Model, test_digits: Data) -> None:
    x, target = test_digits.x[:5], Scores(victim)
    found = Neighbours(200, 0.02).ask(target, x, seed=0)
    assert target.queries == 5 * 200
    torch.testing.assert_close(found, victim.probs(x), atol=0.03, rtol=0)
    assert torch.equal(Neighbours(1).ask(target, x, seed=0), victim.probs(x))
