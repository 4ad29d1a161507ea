"""The audit names a planted patch, a feature that decides, and neither where there is none."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from digits import digits_cnn, train_cnn
from modelkeep import Data, Model
from modelkeep.audit import Finding, Section
from modelkeep.audit.shortcuts import CheckShortcuts
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import small_cnn


def marked(data: Data) -> Data:
    x = data.x.clone()
    x[data.y == 2, :, 4:6, 0:2] = 1.0
    return replace(data, x=x)


def only(section: Section) -> Finding:
    (finding,) = section.findings
    return finding


def test_the_patch_is_named_on_the_planted_model_and_not_on_the_clean_one() -> None:
    train, test = datasets.load("digits", "train"), datasets.load("digits", "test")
    section = CheckShortcuts()(train_cnn(marked(train)), marked(test), seed=0)
    finding = only(section)
    assert (finding.id, finding.severity) == ("shortcuts.planted-mark", "high")
    assert finding.title == "A mark at rows 4–5, columns 0–1 stands in for '2'"
    assert "are taken for '2'" in finding.measured
    assert "are no longer recognised" in finding.measured
    assert "outlined" in finding.evidence[0].caption
    assert section.measures[2].estimate.low > section.measures[3].estimate.high
    clean = digits_cnn()
    for data in (test, marked(test)):  # it has not learned to follow the patch, even where there is one
        quiet = CheckShortcuts()(clean, data, seed=0)
        assert (only(quiet).id, only(quiet).severity) == ("shortcuts.none-found", "good")
        assert only(quiet).evidence == ()


def test_a_feature_that_decides_is_a_question_and_not_an_accusation() -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(100) % 2
    x = torch.stack([torch.rand(100, generator=generator), y.float()], dim=1)
    layer = nn.Linear(2, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.0, -9.0], [0.0, 9.0]]))
        layer.bias.copy_(torch.tensor([4.5, -4.5]))
    data = Data(x, y, ("no", "yes"), features=("age", "receipt"))
    finding = only(CheckShortcuts()(Model(layer, input_shape=(2,), classes=data.classes), data, seed=0))
    assert (finding.id, finding.severity) == ("shortcuts.one-feature-decides", "low")
    assert finding.title == "The feature 'receipt' alone decides"
    assert "may rightly decide alone" in finding.meaning
    assert finding.taxonomy == ()


def test_a_small_place_of_a_picture_that_turns_most_is_named_even_where_it_varies() -> None:
    """Two classes told apart by the brightness of one corner, which varies over its whole range in both."""

    class Corner(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            bright = x[:, 0, :2, :2].mean(dim=(1, 2)) - 0.5
            return torch.stack([-bright, bright], dim=1)

    x = torch.rand(200, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    model = Model(Corner(), input_shape=(1, 8, 8), classes=("dark", "bright"))
    finding = only(CheckShortcuts()(model, Data(x, model.predict(x), model.classes), seed=0))
    assert (finding.id, finding.severity) == ("shortcuts.one-place-decides", "medium")
    assert "rows 0–1, columns 0–1" in finding.title
    assert "So do" in finding.measured


def test_too_few_examples_are_unclear() -> None:
    test = datasets.load("digits", "test").first(12)
    torch.manual_seed(0)
    model = Model(small_cnn((1, 8, 8), 10), input_shape=(1, 8, 8), classes=10)
    assert only(CheckShortcuts()(model, test, seed=0)).severity == "unclear"
