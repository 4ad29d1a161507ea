"""Figure 8.14: the settings of the thesis, and reconstructions that a second try finds again."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.papers.leino2022 import figure_8_14
from modelkeep.papers.leino2022.figure_8_14 import METHODS, SETUPS, _show, make_objective, report, trials
from modelkeep.privacy import draw_watermarks
from modelkeep.privacy.property.meta_classifier import MetaTraining
from modelkeep.privacy.property.shadow_sets import Procedure
from modelkeep.training import Recipe, cross_entropy
from modelkeep.zoo import datasets
from papers.leino2022.performing import performed

LITTLE = replace(SETUPS["small"][0], hidden=(8, 8), counts=(14, 20), targets=8, per_class=1, images=40, epochs=1)


def procedure() -> Procedure:
    torch.manual_seed(0)
    data = Data(torch.rand(16, 1, 28, 28), torch.arange(16) % 2, ("a", "b"), bounds=(0, 1))
    model = Model(nn.Sequential(nn.Flatten(), nn.Linear(784, 2)), input_shape=(1, 28, 28), classes=data.classes)
    return Procedure(model, data, cross_entropy, Recipe(epochs=1), draw_watermarks(0))


def test_the_paper_size_has_the_thesis_settings() -> None:
    faces, pictures = SETUPS["paper"]
    assert (faces.hidden, pictures.hidden) == ((1000, 1000), (1000,) * 4)
    assert (faces.pgd, faces.gloro, pictures.pgd, pictures.gloro) == (0.45, 0.45, 1.0, 0.141)
    for setup in (faces, pictures):
        assert setup.epochs == 30
        assert setup.extractor == "resnet18"
    # 80 % of 128, 256, 512 and, on faces, 1024 models
    assert faces.counts[-1] + faces.targets == 1024
    assert pictures.counts[-1] + pictures.targets == 512
    assert len(trials("paper", 0)) == 2 * len(METHODS)


def test_in_the_unit_ball_a_radius_counts_in_lengths_of_a_picture() -> None:
    data = Data(torch.ones(4, 3, 8, 8), torch.arange(4) % 2, ("a", "b"), bounds=(0, 1))
    objective = make_objective("pgd", SETUPS["paper"][0], data)
    assert objective.radius == pytest.approx(0.45 * 0.5 * 192**0.5)  # type: ignore[attr-defined]


def test_reconstructions_are_found_again_and_only_missing_ones_are_made(tmp_path: Path) -> None:
    first = _show(procedure(), LITTLE, 0, tmp_path)
    assert first.sets.shape == (28, 2, 1, 28, 28)
    (tmp_path / "reconstructions-14.safetensors").unlink()
    before = (tmp_path / "reconstructions-0.safetensors").stat().st_mtime_ns
    again = _show(procedure(), LITTLE, 0, tmp_path)
    assert torch.equal(again.sets, first.sets)
    assert (tmp_path / "reconstructions-0.safetensors").stat().st_mtime_ns == before


def test_the_report_has_a_row_per_training_method(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    little = Data(torch.rand(40, 1, 28, 28, generator=generator), torch.arange(40) % 2, ("a", "b"), bounds=(0, 1))
    monkeypatch.setattr(datasets, "load", lambda name: little)
    monkeypatch.setitem(SETUPS, "small", (replace(LITTLE, images=None),))
    monkeypatch.setattr(figure_8_14, "MetaTraining", partial(MetaTraining, epochs=1))
    result = report(performed(trials("small", 0)[:1]))
    cells = {(cell.row, cell.column): cell.ours for cell in result.cells}
    assert cells["mnist, standard", "F1, 14 shadows"] is not None
    assert cells["mnist, standard", "F1 of the control with shuffled labels, 20 shadows"] is not None
    assert cells["mnist, gloro", "F1, 20 shadows"] is None
    assert len(result.claims) == 2 * len(METHODS)
