"""The first look at a data set: counts and ranges against NumPy, pictures in their rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from modelkeep import Data, Result
from modelkeep.core.errors import InputError
from modelkeep.zoo import datasets


def test_tables() -> None:
    data = datasets.load("wine")
    summary = datasets.summarise(data)
    x = data.x.numpy()
    np.testing.assert_allclose(summary.mean, x.mean(axis=0, dtype=np.float64), rtol=1e-6)
    assert summary.low == tuple(x.min(axis=0).tolist())
    assert summary.high == tuple(x.max(axis=0).tolist())
    assert summary.counts == tuple(np.bincount(data.y.numpy()).tolist())
    assert "class_1" in str(summary)
    assert "and 1 more" in str(summary)  # 13 features, of which a person reads 12
    with pytest.raises(InputError, match="no picture"):
        summary.draw()


def test_missing_values_are_counted() -> None:
    x = torch.tensor([[1.0, 0, 1], [0, 1, 0], [0, 1, 1]])
    data = Data(x, torch.tensor([0, 1, 1]), ("a", "b"), features=("size", "size is missing", "colour=?"))
    assert datasets.summarise(data).missing == {"size is missing": 2, "colour=?": 2}


def test_pictures_are_the_first_of_each_class() -> None:
    data = datasets.load("digits", "test")
    summary = datasets.summarise(data)
    assert summary.pictures is not None
    assert summary.shown == data.classes
    for row, name in enumerate(summary.shown):
        assert torch.equal(summary.pictures[row], data.of_class(name).x[:10])
    figure = summary.draw()
    assert len(figure.axes) == 100
    assert figure.axes[30].get_ylabel() == "3"


def test_many_classes_and_few_pictures_fit_in_one_picture() -> None:
    data = Data(torch.rand(50, 3, 4, 4), torch.arange(50), tuple(map(str, range(60))), bounds=(0.0, 1.0))
    summary = datasets.summarise(data)
    assert len(summary.shown) == 10
    assert (summary.shown[0], summary.shown[-1]) == ("0", "49")
    assert summary.pictures is not None
    assert float(summary.pictures[:, 1:].abs().max()) == 0


def test_json_comes_back() -> None:
    summary = datasets.summarise(datasets.load("digits").first(20))
    again = Result.from_json(summary.to_json())
    assert isinstance(again, datasets.Summary)
    assert again.counts == summary.counts
    assert again.pictures is not None
    assert summary.pictures is not None
    assert torch.equal(again.pictures, summary.pictures)


def test_nothing_to_describe() -> None:
    with pytest.raises(InputError, match="no examples"):
        datasets.summarise(datasets.load("wine").first(0))
