"""The models in the package know what they were trained on, and the tool that made them makes them again."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

from modelkeep.certify import Certify
from modelkeep.zoo import datasets, embedded, pretrained

TOOL = Path(__file__).parents[2] / "tools" / "embedded_models.py"


def test_the_digits_are_recognised() -> None:
    model, test = embedded.digits_cnn(), datasets.load("digits", "test")
    assert (model.predict(test.x) == test.y).sum() >= 345  # 349 of 359 when it was made


def test_most_answers_of_the_certified_model_are_proved() -> None:
    """Docs say 84.7 %: what they say is what is shipped."""
    found = Certify(radius=0.3)(embedded.digits_certified(), datasets.load("digits", "test"))
    assert found.verified.value == pytest.approx(0.847, abs=0.006)


def test_the_clinic_knows_its_own_patients_better() -> None:
    members, others = datasets.load("breast-cancer").split(0.5, 0.5, seed=0)
    model = embedded.clinic()
    assert (model.predict(members.x) == members.y).all()
    assert (model.predict(others.x) == others.y).float().mean() > 0.95


def test_the_tool_makes_the_clinic_again() -> None:
    """On another processor sums may round differently; the answers stay within what that can do."""
    made, shipped = runpy.run_path(str(TOOL))["train_clinic"](), embedded.clinic()
    _, others = datasets.load("breast-cancer").split(0.5, 0.5, seed=0)
    torch.testing.assert_close(made.probs(others.x), shipped.probs(others.x), atol=0.02, rtol=0.0)


def test_they_are_loaded_by_name() -> None:
    for name in ("clinic", "digits-certified", "digits-cnn"):
        assert pretrained.load(name).fingerprint() == getattr(embedded, name.replace("-", "_"))().fingerprint()
