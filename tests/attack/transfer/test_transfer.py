"""Transfer: the proxy learns the target's answers and nothing else of it, and what fools the one fools the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest
import torch
from torch import nn

from modelkeep import Data, Model, Result
from modelkeep.attack import Transfer, Transferred, proxy_set
from modelkeep.attack.transfer.proxy import ask, train_proxy
from modelkeep.core.access import Labels, Scores
from modelkeep.core.errors import InputError, QueryBudget
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.zoo import architectures, datasets

RECIPE = Recipe(epochs=12, batch_size=64, learning_rate=5e-3)


def small(input_shape: Sequence[int], classes: int) -> nn.Module:
    return architectures.dense(input_shape, classes, hidden=[48])


@pytest.fixture(scope="module")
def halves() -> tuple[Data, Data]:
    """What the target is trained on, and what the attacker has."""
    one, two = datasets.load("digits").split(0.5, 0.5, seed=0)
    return one, two


@pytest.fixture(scope="module")
def target(halves: tuple[Data, Data]) -> Model:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = architectures.dense((1, 8, 8), 10, hidden=[32])
    model = Model(module, input_shape=(1, 8, 8), classes=halves[0].classes)
    fit(model, halves[0], cross_entropy, RECIPE, seed=0)
    return model


@pytest.mark.parametrize("answers", ["scores", "labels"])
def test_the_proxy_agrees_and_its_inputs_transfer(
    target: Model, halves: tuple[Data, Data], answers: Literal["scores", "labels"]
) -> None:
    data = datasets.load("digits", "test").first(200)
    found = Transfer(questions=halves[1], answers=answers, proxy=small, recipe=RECIPE, radius=0.2)(target, data, seed=0)
    assert found.agreement.value > 0.88
    assert found.agreement.n == len(halves[1]) // 10
    assert found.proxy_success is not None
    assert found.proxy_success.low > 0.5
    assert found.transfer_rate is not None
    assert found.transfer_rate.low > 0.5
    assert found.success_rate is not None
    noise = torch.randn(data.x.shape, generator=torch.Generator().manual_seed(0)).sign()
    random = (target.predict((data.x + 0.2 * noise).clamp(0, 1)) == data.y).double().mean()
    assert found.robust_accuracy.high < float(random) - 0.2  # noise of the same size does far less
    tried = found.success_rate.n
    assert found.queries == len(halves[1]) + tried
    assert found.gradients == 20 * tried
    assert found.distance.max() <= 0.2
    assert torch.equal(found.adversarial[~found.success], data.x[~found.success])
    assert torch.equal(target.predict(found.adversarial) != data.y, found.success)
    assert found.health == ()


def test_towards_a_target_and_back_from_json(target: Model, halves: tuple[Data, Data]) -> None:
    data = datasets.load("digits", "test").first(60)
    found, again = (
        Transfer(questions=halves[1], proxy=small, recipe=RECIPE, target="3", radius=0.2)(target, data, seed=1)
        for _ in "ab"
    )
    assert (target.predict(found.adversarial[found.success]) == 3).all()
    assert found.success[data.y != 3].any()
    assert torch.equal(found.adversarial, again.adversarial)
    back = Result.from_json(found.to_json())
    assert isinstance(back, Transferred)
    assert back.agreement == found.agreement
    assert "of which transfer" in str(found)


def test_a_trained_model_is_taken_as_it_is(target: Model, halves: tuple[Data, Data]) -> None:
    data = datasets.load("digits", "test").first(40)
    before = target.fingerprint()
    found = Transfer(proxy=target, radius=0.1, momentum=0.0)(target, data, seed=0)  # the perfect proxy
    assert found.agreement.value == 1
    assert found.transfer_rate is not None
    assert found.transfer_rate.value == 1
    assert target.fingerprint() == before


class Guarded(nn.Module):
    """A target that raises when anybody wants its gradient, and counts what it is asked."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.asked = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert not x.requires_grad
        assert not torch.is_grad_enabled()
        self.asked += len(x)
        logits: torch.Tensor = self.inner(x)
        return logits


def test_the_target_is_only_asked_and_never_beyond_the_budget(target: Model, halves: tuple[Data, Data]) -> None:
    module = Guarded(target.module)
    guarded = Model(module, input_shape=(1, 8, 8), classes=target.classes)
    data, questions = datasets.load("digits", "test").first(30), halves[1].first(100)
    short = Recipe(steps=5)
    found = Transfer(questions=questions, answers="labels", recipe=short, radius=0.1, budget=100)(guarded, data, seed=0)
    # Besides: the probe of two, the frame's clean pass and its look for randomness.
    assert module.asked - found.queries <= 2 + 2 * len(data)
    module.asked = 0
    with pytest.raises(QueryBudget, match="The budget is 99 queries"):
        Transfer(questions=questions, recipe=short, radius=0.1, budget=99)(guarded, data, seed=0)
    assert module.asked == 0


def test_a_view_gives_probabilities_or_mere_labels(target: Model) -> None:
    x = torch.rand(6, 1, 8, 8)
    assert torch.allclose(ask(Scores(target), x).sum(dim=1), torch.ones(6))
    labels = ask(Labels(target), x)
    assert torch.equal(labels.argmax(dim=1), target.predict(x))
    assert torch.equal(labels.sum(dim=1), torch.ones(6))


def test_a_proxy_that_learnt_nothing_is_called_so(target: Model, halves: tuple[Data, Data]) -> None:
    questions = halves[1]
    view = Scores(target)
    answers = ask(view, questions.x)
    still = train_proxy(view, questions.x, answers, recipe=Recipe(steps=1, learning_rate=0.0), seed=0)
    assert "not a copy of the target" in still.notes()[0]
    same = train_proxy(
        view, questions.x, torch.eye(10)[torch.zeros(len(questions), dtype=torch.int64)], recipe=RECIPE, seed=0
    )
    assert "one and the same answer" in same.notes()[0]
    good = train_proxy(view, questions.x, answers, architecture=small, recipe=RECIPE, seed=0)
    assert good.notes() == ()
    assert "poor copy" in replace(good, agreement=replace(good.agreement, value=0.7)).notes()[0]


def test_the_discriminator_finds_the_digits_among_other_images(target: Model, halves: tuple[Data, Data]) -> None:
    digits = halves[1].x
    generator = torch.Generator().manual_seed(0)
    shuffled = digits.flatten(1)[:, torch.randperm(64, generator=generator)].view_as(digits)
    noise = torch.rand(digits.shape, generator=generator)
    x = torch.cat([digits, noise[:360], shuffled[:360]])
    candidates = Data(x, torch.zeros(len(x), dtype=torch.int64), halves[0].classes)
    view = Scores(target)
    found = proxy_set(view, candidates, seed=0)
    kept = found.chosen
    assert found.queries == view.queries == len(x)
    assert kept[: len(digits)].double().mean() > 0.6
    assert kept[len(digits) :].double().mean() < 0.2
    assert "candidates chosen" in str(found)
    assert len(found.draw().axes) == 1
    assert torch.equal(proxy_set(view, candidates, seed=0).original, found.original)
    attacked = Transfer(questions=candidates, discriminate=True, proxy=small, recipe=RECIPE, radius=0.12)(
        target, datasets.load("digits", "test").first(100), seed=0
    )
    assert attacked.chosen == int(kept.sum())
    assert attacked.questions == len(x)
    assert attacked.transfer_rate is not None
    assert attacked.transfer_rate.low > 0.4


def test_nonsense_is_refused(target: Model, halves: tuple[Data, Data]) -> None:
    data = halves[1].first(12)
    with pytest.raises(InputError, match="The 'answers' parameter of Transfer"):
        Transfer(answers="logits", radius=0.1)(target, data, seed=0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="looks at scores"):
        Transfer(answers="labels", discriminate=True, radius=0.1)(target, data, seed=0)
    with pytest.raises(InputError, match="at least 2 questions"):
        Transfer(questions=data.first(1), radius=0.1)(target, data, seed=0)
    with pytest.raises(InputError, match=r"takes values in \(0.0, 1.0\), but the questions"):
        Transfer(questions=replace(data, x=255 * data.x, bounds=None), radius=0.1)(target, data, seed=0)
    with pytest.raises(InputError, match="at least 10 candidates"):
        proxy_set(Scores(target), data.first(5), seed=0)
