"""T5 asks the whole model for answers, once each, and sees nothing else of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from completion.solved import BOTH, problem, same_answers_by_other_weights, same_weights, with_other_weights
from modelkeep.completion.procedures.distillation import Distillation
from modelkeep.completion.retraining import train_and_measure
from modelkeep.core.errors import InputError
from modelkeep.harden.distillation import distil


def test_it_completes_on_the_grid_and_leaves_the_model_alone() -> None:
    given = problem()
    before = given.model.fingerprint()
    found = Distillation()(given, seed=1)
    assert found.curve.steps == tuple(range(0, 45, 5))
    assert found.curve.best < found.curve.losses[0] - 0.2
    assert given.model.fingerprint() == before


def test_labels_are_not_needed() -> None:
    given = problem()
    shuffled = replace(given.data, y=given.data.y.flip(0))
    found, other = Distillation()(given, seed=1), Distillation()(replace(given, data=shuffled), seed=1)
    assert found.curve == other.curve


def test_only_the_answers_count() -> None:
    """Other weights of the missing part with the same answers change nothing; other answers do."""
    found = Distillation()(problem(BOTH), seed=1)
    again = Distillation()(problem(BOTH, model=same_answers_by_other_weights()), seed=1)
    other = Distillation()(problem(BOTH, model=with_other_weights("conv2")), seed=1)
    assert found.curve == again.curve
    assert same_weights(found.model, again.model)
    assert not same_weights(found.model, other.model)


def test_the_temperature_is_the_softmaxs() -> None:
    """Against defensive distillation, which has the logits and divides them."""
    given = problem(recipe=replace(problem().recipe, steps=10))
    model = given.initial_model(1)
    objective = distil(given.model, given.data, temperature=4.0)
    curve = train_and_measure(model, given.data, given.held_out, given.recipe, objective=objective, seed=1)
    found = Distillation(temperature=4.0)(given, seed=1)
    assert found.curve == curve
    for ours, theirs in zip(found.model.module.parameters(), model.module.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-4)
    with pytest.raises(InputError, match="temperature"):
        Distillation(temperature=0.0)


def test_it_resumes(tmp_path: Path) -> None:
    found = Distillation()(problem(), seed=1, checkpoint=tmp_path / "run")
    again = Distillation()(problem(), seed=1, checkpoint=tmp_path / "run")
    assert found.curve == again.curve
    assert same_weights(found.model, again.model)
