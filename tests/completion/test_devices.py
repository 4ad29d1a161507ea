"""Every procedure on a model of another device: nothing is left behind, and it ends as on the CPU."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest
import torch

from completion.solved import problem, trained
from elsewhere import CUDA, Elsewhere
from modelkeep import Model
from modelkeep.completion.part import Part
from modelkeep.completion.procedures import PROCEDURES
from modelkeep.completion.retraining import RetrainedModel
from modelkeep.training import Recipe

SHORT = Recipe(steps=64, batch_size=32, learning_rate=3e-3, evaluate_every=4)  # T7 searches within it


def completed(name: str, part: Part, device: torch.device, checkpoint: Path) -> RetrainedModel:
    """The part got back by a procedure whose model is on the device."""
    model = Model.from_card(deepcopy(trained().module), trained().card, device)
    recorded = True if name == "T6" else None
    return PROCEDURES[name](problem(part, recorded=recorded, model=model, recipe=SHORT), seed=0, checkpoint=checkpoint)


# "msra" stands for all schemes of T4.
@pytest.mark.parametrize("name", ["T1", "T2", "T3 linear 4x", "T3 relu 4x", "T4 msra", "T5", "T6", "T7"])
def test_a_procedure_ends_the_same_elsewhere(name: str, tmp_path: Path) -> None:
    part = Part("Conv 2", ("conv2",))
    here = completed(name, part, torch.device("cpu"), tmp_path / "here")
    with Elsewhere() as place:
        there = completed(name, part, CUDA, tmp_path / "there")
        assert all(place.has(tensor) for tensor in there.model.module.parameters())
    assert there.curve == here.curve


def test_a_share_is_trained_elsewhere(tmp_path: Path) -> None:
    part = Part("half", ("conv2",), share=0.5)
    here = completed("T2", part, torch.device("cpu"), tmp_path / "here")
    with Elsewhere():
        assert completed("T2", part, CUDA, tmp_path / "there").curve == here.curve
