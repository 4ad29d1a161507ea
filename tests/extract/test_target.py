"""Targets: what leaves a guarded model, and that logits are never taken for probabilities."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from modelkeep import Data, Model
from modelkeep.core.access import Scores
from modelkeep.core.errors import AccessError, InputError, PredictionError, QueryBudget
from modelkeep.extract.attacks import LabelsOnly
from modelkeep.extract.extraction import Extract
from modelkeep.extract.strategies import Knockoff
from modelkeep.extract.target import Asked, Guarded, Labelled, Target, open_target, probabilities
from modelkeep.guard.defences.modelguard_s import ModelGuardS
from modelkeep.guard.defences.top_one import TopOne
from modelkeep.training import Recipe


def test_a_guarded_model_gives_what_its_defence_lets_out(victim: Model, test_digits: Data) -> None:
    target = Guarded(victim, TopOne())
    answers = target.probs(test_digits.x)
    assert torch.equal(answers.argmax(dim=1), victim.predict(test_digits.x))
    assert torch.equal(answers, torch.eye(10)[victim.predict(test_digits.x)])
    assert torch.equal(target.labels(test_digits.x[:5]), victim.predict(test_digits.x[:5]))
    assert target.queries == len(test_digits) + 5


def test_the_state_of_a_defence_belongs_to_the_target(victim: Model, test_digits: Data) -> None:
    one, two = Guarded(victim, ModelGuardS(1.0)), Guarded(victim, ModelGuardS(1.0))
    first = one.probs(test_digits.x)
    assert torch.equal(two.probs(test_digits.x), first)
    assert torch.equal(one.probs(test_digits.x), first)  # ordered: the same for ever
    assert sum(one.state.length(label) for label in range(10)) == len(torch.unique(first, dim=0))


def test_a_budget_is_refused_before_anything_is_asked(victim: Model, halves: tuple[Data, Data]) -> None:
    calls: list[int] = []

    def ask(x: torch.Tensor) -> torch.Tensor:
        calls.append(len(x))
        return victim.probs(x)

    asked = Asked(ask, input_shape=(1, 8, 8), classes=10, returns="probabilities", budget=50)
    targets: list[Target] = [asked, Guarded(victim, TopOne(), budget=50)]
    for target in targets:
        with pytest.raises(QueryBudget, match="The budget is 50 queries: 0 are spent, and 60 more"):
            Extract(halves[1], Knockoff(60), recipe=Recipe(steps=1))(target, halves[0], seed=0)
        assert target.queries == 0
    assert calls == []


def test_logits_are_not_taken_for_probabilities(victim: Model, halves: tuple[Data, Data], test_digits: Data) -> None:
    """What gives a copy at the level of chance elsewhere, without a word."""
    wrong = Asked(victim.logits, input_shape=(1, 8, 8), classes=10, returns="probabilities")
    with pytest.raises(PredictionError, match=r"these are not probabilities\. If they are logits, say so"):
        Extract(halves[1], Knockoff(60))(wrong, test_digits, seed=0)
    right = Asked(victim.logits, input_shape=(1, 8, 8), classes=10, returns="logits")
    torch.testing.assert_close(right.probs(test_digits.x), Scores(victim).probs(test_digits.x))
    said_wrongly = Asked(victim.probs, input_shape=(1, 8, 8), classes=10, returns="logits")
    with pytest.raises(PredictionError, match="every row sums to 1: say probabilities"):
        said_wrongly.probs(test_digits.x)
    with pytest.raises(InputError, match="'probabilities' or 'logits'"):
        Asked(victim.probs, input_shape=(1, 8, 8), classes=10, returns="scores")  # type: ignore[arg-type]


def test_what_is_no_answer_is_refused() -> None:
    with pytest.raises(PredictionError, match=r"should give a table of \(2, 3\)"):
        probabilities(torch.ones(2, 4) / 4, (2, 3))
    with pytest.raises(PredictionError, match="Row 1 of 2 holds NaN"):
        probabilities(torch.tensor([[0.5, 0.5], [torch.nan, 0.5]]), (2, 2))
    with pytest.raises(PredictionError, match=r"Row 0 of 1 holds -0\.1"):
        probabilities(torch.tensor([[-0.1, 1.1]]), (1, 2))


def test_a_model_that_only_says_labels_is_copied_as_one_whose_scores_are_thrown_away(
    victim: Model, halves: tuple[Data, Data], test_digits: Data
) -> None:
    def answer(x: NDArray[np.float32]) -> NDArray[np.int64]:
        return victim.predict(torch.from_numpy(x)).numpy()

    told = Model.answering(answer, input_shape=(1, 8, 8), classes=victim.classes, bounds=(0, 1), gives="labels")
    with pytest.raises(AccessError, match="only answers with labels"):
        Scores(told)
    target = open_target(told)
    assert isinstance(target, Labelled)
    recipe = Recipe(epochs=3)
    found = Extract(halves[1], Knockoff(60), recipe=recipe)(target, test_digits, seed=0)
    expected = Extract(halves[1], Knockoff(60), LabelsOnly(), recipe=recipe)(Scores(victim), test_digits, seed=0)
    assert found.fidelity == expected.fidelity
    assert torch.equal(found.substitute.logits(test_digits.x), expected.substitute.logits(test_digits.x))
    assert (found.queries, found.judging_queries) == (60, len(test_digits))
    judged = Extract(halves[1], Knockoff(60), recipe=recipe, clean=told)(open_target(told), test_digits, seed=0)
    assert judged.fidelity == found.fidelity
    assert judged.recovery_distance is None  # its predictions are not known


def test_an_estimator_without_probabilities_is_copied() -> None:
    from sklearn.svm import SVC

    generator = torch.Generator().manual_seed(0)
    x = torch.rand(400, 3, generator=generator)
    data = Data(x, x.argmax(dim=1), ("a", "b", "c"))
    machine = SVC(decision_function_shape="ovo").fit(x[:200].numpy(), data.y[:200].numpy())
    model = Model.answering(machine, classes=data.classes, bounds=(0, 1))
    assert model.access == "labels"
    found = Extract(data.take(range(200)), Knockoff(200), recipe=Recipe(epochs=40))(
        open_target(model), data.take(range(200, 400)), seed=0
    )
    assert found.fidelity.value > 0.7  # a constant answer reaches about a third
