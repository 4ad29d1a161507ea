"""Reconstructions on the page of privacy: for pictures and weights, beside the member that is most like each."""

from __future__ import annotations

import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.privacy import Knowledge, Loss
from modelkeep.report import measure_privacy, privacy_page
from modelkeep.report.reconstructions import NAME, reconstruct
from modelkeep.training import Recipe


def world() -> tuple[Model, Data]:
    """A linear network whose reconstructions are corners of the box, two of which are among the members."""
    torch.manual_seed(0)
    weight = 0.1 * torch.randn(36).sign()
    layer = nn.Linear(36, 2, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.stack([weight, -weight]))
    model = Model(nn.Sequential(nn.Flatten(), layer), input_shape=(1, 6, 6), classes=("a", "b"))
    corner = (weight > 0).float().view(1, 1, 6, 6)
    x = torch.cat([torch.rand(10, 1, 6, 6), corner, 1 - corner])
    return model, Data(x, torch.arange(12) % 2, model.classes, bounds=(0.0, 1.0))


def test_the_page_shows_what_the_weights_show() -> None:
    model, data = world()
    found = measure_privacy(model, data, data, Knowledge(data, Recipe(steps=1)), [Loss()])
    assert found.inverted is not None
    assert found.inverted.example is not None
    assert found.inverted.example.tolist() == [10, 11]
    page = privacy_page(found, data)
    assert NAME in page.pictures
    html = page.render()
    for words in ("What the weights show", "Reconstructions from the weights", "do not hand out the weights"):
        assert words in html


def test_tables_and_models_without_a_range_have_none() -> None:
    model, data = world()
    assert reconstruct(model, data) is not None
    table = Data(torch.rand(6, 3), torch.arange(6) % 2, ("a", "b"))
    assert reconstruct(Model(nn.Linear(3, 2), input_shape=(3,), classes=("a", "b")), table) is None
    boundless = Model(model.module, input_shape=(1, 6, 6), classes=data.classes, bounds=None)
    assert reconstruct(boundless, data) is None
