"""Tiny versions of tables 9.2 and 9.6, on data that need no download."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from modelkeep import Data
from modelkeep.papers.leino2022 import binary_tables, table_9_2, table_9_6, table_9_6_images
from modelkeep.papers.table import PaperTable
from modelkeep.study import Trial
from modelkeep.zoo import datasets
from papers.leino2022.performing import performed, without


def cell(result: PaperTable, row: str, column: str) -> Any:
    return next(c for c in result.cells if (c.row, c.column) == (row, column))


def test_table_9_2_has_the_thesis_distance_prior_bias_and_accuracy() -> None:
    trial = Trial.of(table_9_2.classify, {"dataset": "breast-cancer", "splits": 20, "resamples": 50}, 0)
    result = table_9_2.report(performed([trial]))
    x, y = binary_tables.table("breast-cancer")
    gap = x[y == 1].mean(axis=0) - x[y == 0].mean(axis=0)
    by_hand = float(np.sqrt(gap @ np.linalg.inv(np.cov(x.T)) @ gap))
    assert cell(result, "breast-cancer", "D").ours.value == pytest.approx(by_hand, rel=1e-6)
    for column, tolerance in (("D", 0.01), ("p*", 0.005), ("B", 0.01), ("accuracy", 0.01)):
        found = cell(result, "breast-cancer", column)
        assert found.ours.value == pytest.approx(found.paper, abs=tolerance)
        assert found.ours.low < found.ours.value < found.ours.high
    assert cell(result, "wisconsin", "D").note == "a trial is missing"
    assert "banknote: not available here. Paper: D 1.87" in str(result)


def test_a_table_has_the_majority_as_class_1_and_one_class_against_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str, part: str) -> Data:
        y = torch.tensor([0, 1, 1, 1, 2] if part == "train" else [1, 2, 0])
        x = torch.arange(2.0 * len(y)).reshape(-1, 2)
        return Data(x, y, ("Biopsy", "Cancer", "Normal"), features=("gene", "gene is missing"))

    monkeypatch.setattr(datasets, "load", load)
    x, y = binary_tables.table("bladder")
    assert x[:, 0].tolist() == [0, 2, 4, 6, 8, 0, 2, 4]
    assert y.tolist() == [0, 1, 1, 1, 0, 1, 0, 0]
    monkeypatch.setitem(binary_tables.AGAINST_THE_REST, "bladder", "Biopsy")
    assert binary_tables.table("bladder")[1].tolist() == [0, 1, 1, 1, 1, 1, 1, 0]


def test_table_9_6_on_a_table_and_on_synthetic_data() -> None:
    trials = [
        Trial.of(table_9_6.on_synthetic, {"variance": 9.0, "epochs": 5, "splits": 4}, 0),
        Trial.of(table_9_6.on_table, {"dataset": "breast-cancer", "epochs": None, "splits": 3}, 0),
    ]
    found = performed(trials)
    result = table_9_6.report(found)
    synthetic = "synthetic, variance 9, 5 epochs"
    assert cell(result, synthetic, "B, before").paper == 0.241
    assert cell(result, synthetic, "B, before").ours.value == pytest.approx(0.241, abs=0.02)
    assert cell(result, synthetic, "accuracy, before").ours.value == pytest.approx(0.749, abs=0.02)
    # The intercept is what the experts' fix is about.
    assert result.claims[1].holds is False
    kept = np.mean(found.records[0].value["B, experts*"])
    assert kept == pytest.approx(0.236, abs=0.05)
    real = cell(result, "breast-cancer, to convergence", "p*")
    assert real.ours.value == pytest.approx(357 / 569)
    assert real.paper is None
    assert "prostate: not available here. Paper: p* 0.51, B, before 0.473" in str(result)
    missing = table_9_6.report(without(found, 0))
    assert cell(missing, synthetic, "B, before").note == "a trial is missing"
    assert missing.claims[1].verdict == "unclear"


def test_the_papers_rows_have_a_number_for_each_column() -> None:
    assert {len(row) for row in table_9_6.PAPER.values()} == {len(table_9_6.COLUMNS)}
    # Where all errors are of one kind, bias and accuracy sum to 1: a slip in the order of columns would show.
    for name in ("prostate", "synthetic"):
        row = dict(zip(table_9_6.COLUMNS, table_9_6.PAPER[name], strict=True))
        assert row["B, before"] is not None
        assert row["accuracy, before"] is not None
        assert row["B, before"] + row["accuracy, before"] == pytest.approx(1.0, abs=0.011)


@pytest.fixture
def few_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Digits in place of CIFAR-10, with names as there."""
    digits = {part: datasets.load("digits", part) for part in ("train", "test")}
    names = ("bird", "frog", *map(str, range(2, 10)))

    def load(name: str, part: str) -> Data:
        assert name == "cifar-10"
        found = digits["train" if part == "train" else "test"]
        return Data(found.x, found.y, names, bounds=found.bounds)

    monkeypatch.setattr(datasets, "load", load)


@pytest.mark.usefixtures("few_images")
def test_table_9_6_on_images() -> None:
    settings = {"architecture": "small_cnn", "images": 250, "epochs": 6}
    found = performed([Trial.of(table_9_6_images.on_images, {"run": run, **settings}, 0) for run in range(2)])
    first, second = (record.value for record in found.records)
    assert first["accuracy, before"] != second["accuracy, before"] or first["asymmetry"] != second["asymmetry"]
    for value in (first, second):
        assert value["p*"][0] == pytest.approx(0.5, abs=0.02)
        assert value["accuracy, before"][0] > 0.9
        assert value["B, ℓ1"] == []
    result = table_9_6_images.report(found)
    row = "CIFAR-10-binary, small_cnn"
    assert cell(result, row, "accuracy, experts").ours.n == 2
    assert cell(result, row, "accuracy, experts").paper == 0.94
    assert "accuracy, ℓ1" not in {c.column for c in result.cells if c.row == row}
    partly = table_9_6_images.report(without(found, 0))
    assert cell(partly, row, "B, before").note == "1 of 2 trials are missing"
    assert cell(partly, row, "B, before").ours.n == 1


def test_only_two_classes_are_left_with_labels_0_and_1() -> None:
    data = table_9_6_images.only(datasets.load("digits"), ("8", "3"))
    original = datasets.load("digits")
    assert data.classes == ("8", "3")
    assert torch.equal(data.x[data.y == 1], original.x[original.y == 3])
    assert len(data) == int(((original.y == 3) | (original.y == 8)).sum())
