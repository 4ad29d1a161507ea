"""The examples that a view lists: errors first, each with its own number; shown as what they are."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from modelkeep import Data, Model
from modelkeep.web import exhibits
from modelkeep.web.exhibits import Lookout, exhibit, exhibit_input, feature_names, kind_of, operations, top_shares


def test_errors_come_first_and_the_surest_of_them_on_top(trained_cnn: Model, digits: tuple[Data, Data]) -> None:
    data = digits[1]
    lines = Lookout(trained_cnn, data).lines()
    answers = trained_cnn.predict(data.x)
    wrong = [line for line in lines if not line.right]
    assert {line.index for line in wrong} == set(torch.nonzero(answers != data.y).flatten().tolist())
    assert list(lines[: len(wrong)]) == sorted(wrong, key=lambda line: -line.probability)
    for line in lines[:20]:
        assert line.label == data.classes[int(data.y[line.index])]
        assert line.predicted == data.classes[int(answers[line.index])]


def test_of_many_examples_some_are_looked_at_under_their_own_numbers(
    trained_cnn: Model, digits: tuple[Data, Data], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exhibits, "MOST_LOOKED", 10)
    found = Lookout(trained_cnn, digits[1])
    assert len(found.index) == len(set(found.index)) == 10
    torch.testing.assert_close(found.data.x, digits[1].rows(found.index))


def test_a_table_is_shown_by_its_features() -> None:
    table = Data(torch.tensor([[1.0, 2.0]]), torch.tensor([0]), ("a", "b"), features=("age", "height"))
    assert exhibit(table, 0).features == (("age", 1.0), ("height", 2.0))
    assert feature_names(replace(table, features=None)) == ("feature 0", "feature 1")
    assert exhibit_input(table, torch.tensor([3.0, 4.0])).features[0] == ("age", 3.0)


def test_what_is_neither_picture_nor_table_is_not_drawn() -> None:
    signals = Data(torch.zeros(2, 3, 4), torch.zeros(2, dtype=torch.int64), ("a", "b"))
    assert kind_of(signals) == "numbers"
    assert exhibit(signals, 0).picture is None


def test_the_likeliest_class_is_the_answer() -> None:
    shares = top_shares(torch.tensor([0.2, 0.5, 0.3]), ("a", "b", "c"), 2)
    assert [share.name for share in shares] == ["b", "c"]


def test_of_a_large_model_fewer_examples_are_looked_at(
    trained_cnn: Model, digits: tuple[Data, Data], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exhibits, "PATIENCE", 100.5 * operations(trained_cnn))
    assert len(Lookout(trained_cnn, digits[1]).index) == 100
    monkeypatch.setattr(exhibits, "PATIENCE", 1.0)
    assert len(Lookout(trained_cnn, digits[1]).index) == 24
