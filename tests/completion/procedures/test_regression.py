"""T6 learns the missing piece from what crossed its cuts, counts every step, and sees only the recording."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn.functional import mse_loss

from completion.solved import CONV2, problem, same_weights, with_other_weights
from modelkeep.completion.part import Part
from modelkeep.completion.procedures.joint_training import JointTraining
from modelkeep.completion.procedures.regression import Regression
from modelkeep.core.errors import InputError
from modelkeep.training import Recipe


@pytest.mark.parametrize(
    ("layer", "training"),
    [("conv1", True), ("conv2", True), ("linear1", True), ("logits", True), ("conv1", False), ("conv2", False)],
)
def test_it_is_faster_than_joint_training(layer: str, training: bool) -> None:
    given = problem(Part(layer, (layer,)), recorded=training)
    regressed, joint = Regression()(given, seed=1).curve, JointTraining()(given, seed=1).curve
    assert regressed.steps == joint.steps == tuple(range(0, 45, 5))
    assert regressed.losses[0] == joint.losses[0], "both begin with the same broken model"
    assert sum(regressed.losses) < sum(joint.losses)


def test_regression_finds_the_layer_itself() -> None:
    """A convolution is linear in its weights, so what crossed determines them, where its inputs are rich enough."""
    given = problem(recorded=True, recipe=Recipe(steps=200, batch_size=32, learning_rate=0.0, evaluate_every=100))
    after = Regression(share=0.5, learning_rate=0.02)(given, seed=1)
    truth, got = (model.module.get_parameter("conv2.weight").detach() for model in (given.model, after.model))
    start = given.initial_model(1).module.get_parameter("conv2.weight").detach()
    assert mse_loss(got, truth) < 0.1 * mse_loss(start, truth)


def test_only_the_recording_counts() -> None:
    """With another missing layer in the model, and the same recording, all is the same."""
    given = problem(recorded=True)
    found = Regression()(given, seed=1)
    again = Regression()(replace(given, model=with_other_weights("conv2")), seed=1)
    assert found.curve == again.curve
    assert same_weights(found.model, again.model)


def test_a_share_of_a_layer_is_regressed_alone() -> None:
    given = problem(recorded=True)
    half = replace(given, part=replace(CONV2, share=0.5), recipe=replace(given.recipe, learning_rate=0.0))
    found = Regression()(half, seed=1)
    missing = half.part.missing_elements(given.model.module)["conv2.weight"]
    truth, got = (model.module.get_parameter("conv2.weight") for model in (given.model, found.model))
    assert torch.equal(truth[~missing], got[~missing])
    assert not torch.equal(truth[missing], got[missing])


def test_it_resumes(tmp_path: Path) -> None:
    given = problem(recorded=True)
    found = Regression()(given, seed=1, checkpoint=tmp_path / "run")
    again = Regression()(given, seed=1, checkpoint=tmp_path / "run")
    assert found.curve == again.curve
    assert same_weights(found.model, again.model)


def test_what_cannot_be_regressed_is_refused() -> None:
    given = problem(recorded=True)
    with pytest.raises(InputError, match="learns from a recording"):
        Regression()(problem(), seed=1)
    with pytest.raises(InputError, match="does not hold the missing"):
        Regression()(replace(given, part=Part("Conv 1", ("conv1",))), seed=1)
    with pytest.raises(InputError, match="other inputs"):
        Regression()(replace(given, data=given.data.first(390)), seed=1)
    with pytest.raises(InputError, match="no room"):
        Regression()(replace(given, recipe=replace(given.recipe, steps=5)), seed=1)
    with pytest.raises(InputError, match="share"):
        Regression(share=1.0)
