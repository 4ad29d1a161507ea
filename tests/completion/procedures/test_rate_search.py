"""T7 pays for every step of every candidate, and its loss is the best that any of them has shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from completion.solved import problem, same_weights, with_other_weights
from modelkeep.completion.procedures.rate_search import RateSearch
from modelkeep.core.errors import InputError, TrainingError
from modelkeep.training import SGD, StepDecay

BUDGET = replace(problem().recipe, steps=120)


def test_the_steps_of_all_candidates_are_the_budget() -> None:
    found = RateSearch()(problem(recipe=BUDGET), seed=1)
    assert found.curve.steps == tuple(range(0, 125, 5))
    assert list(found.curve.losses) == sorted(found.curve.losses, reverse=True)
    assert found.curve.best < found.curve.losses[0] - 0.2


@pytest.mark.parametrize(("budget", "every"), [(120, 5), (1000, 10), (97, 3)])
def test_the_plan_halves_the_candidates_and_spends_the_budget(budget: int, every: int) -> None:
    plan = RateSearch().plan(problem(recipe=replace(BUDGET, steps=budget, evaluate_every=every)))
    assert [len(lengths) for lengths in plan] == [6, 3, 2, 1]
    assert sum(map(sum, plan)) == budget
    assert all(length % every == 0 for lengths in plan[:-1] for length in lengths)


def test_one_candidate_is_one_training_of_the_whole_budget() -> None:
    assert RateSearch(factors=(1.0,), warm_ups=(False,)).plan(problem(recipe=BUDGET)) == [[120]]


def test_the_missing_part_is_not_seen() -> None:
    found = RateSearch()(problem(recipe=BUDGET), seed=1)
    again = RateSearch()(problem(recipe=BUDGET, model=with_other_weights("conv2")), seed=1)
    assert found.curve == again.curve
    assert same_weights(found.model, again.model)


def test_a_warm_up_trains_only_what_is_missing() -> None:
    given = problem(recipe=replace(BUDGET, steps=10))
    found = RateSearch(factors=(1.0,), warm_ups=(True,))(given, seed=1)
    kept = [name for name, _ in given.model.module.named_parameters() if not name.startswith("conv2")]
    assert all(found.model.module.get_parameter(name).equal(given.model.module.get_parameter(name)) for name in kept)


def test_what_diverges_is_dropped_and_paid_for() -> None:
    steep = replace(BUDGET, optimizer=SGD(), learning_rate=StepDecay(((0, 0.05), (30, 0.01))))
    found = RateSearch(factors=(1e12, 1.0), warm_ups=(False,))(problem(recipe=steep), seed=1)
    assert found.curve.steps[-1] == 120
    assert found.curve.best < found.curve.losses[0]
    with pytest.raises(TrainingError, match="No learning rate"):
        RateSearch(factors=(1e12,), warm_ups=(False,))(problem(recipe=steep), seed=1)


def test_it_resumes(tmp_path: Path) -> None:
    found = RateSearch()(problem(recipe=BUDGET), seed=1, checkpoint=tmp_path / "run")
    (tmp_path / "run.3.0").unlink(missing_ok=True)
    again = RateSearch()(problem(recipe=BUDGET), seed=1, checkpoint=tmp_path / "run")
    assert found.curve == again.curve
    assert same_weights(found.model, again.model)


def test_what_cannot_be_searched_is_refused() -> None:
    with pytest.raises(InputError, match="need more than"):
        RateSearch()(problem(), seed=1)
    with pytest.raises(InputError, match="factors"):
        RateSearch(factors=())
    with pytest.raises(InputError, match="warm_ups"):
        RateSearch(warm_ups=())
