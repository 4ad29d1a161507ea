"""Table 6.7, made again on a few digits: every number is there, and the verdicts follow from the numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from modelkeep.certify.gloro import GloRoNet
from modelkeep.certify.objectives import EMMA, GloRoTrades
from modelkeep.papers.leino2022.table_6_7 import (
    CIFAR,
    COLUMNS,
    EASY,
    EXACT,
    FASHION,
    GLORO,
    PAPER,
    RECIPES,
    STANDARD,
    TABLE_6_7,
    TASKS,
    Training,
    report,
    train_network,
    trials,
    verify_on,
)
from modelkeep.papers.study import Size
from modelkeep.study import StudyResult, working_in
from modelkeep.training import Linear, Recipe
from modelkeep.zoo.datasets import load
from records import made

TINY = Training("cnn_2c2f", "emma", 0.2, Recipe(epochs=3, batch_size=64, learning_rate=Linear(5e-3, 0.0)))
SOLID = {"clean": [9000, 10_000], "PGD": [850, 1000], "VRA": [7800, 10_000], EXACT: [7810, 10_000], "epochs": 3}
BARE = {"clean": [9200, 10_000], "PGD": [300, 1000], "VRA": [0, 10_000], EXACT: [0, 10_000], "epochs": 3}


def made_of(found: dict[str, dict[str, Any]]) -> StudyResult:
    """A study whose trials gave this for each method; nothing: the trial failed."""
    return made(trials("small", 0), lambda trial: found.get(trial.parameters["method"]))


def test_a_trial_counts_at_least_what_the_net_itself_says(tmp_path: Path) -> None:
    train, test = load("digits", "train").first(600), load("digits", "test").first(200)
    with working_in(tmp_path):
        found = verify_on(train, test, 0, 0.15, GLORO, TINY, attacked=100, steps=10)
        assert (tmp_path / "training").exists()  # it can be gone on with
    net = GloRoNet(train_network(train, GLORO, TINY, 0), 0.15)
    assert int((net.predict(test.x) == test.y).sum()) <= found["VRA"][0] <= found[EXACT][0]
    assert found["clean"] == [int((net.model.predict(test.x) == test.y).sum()), 200]
    assert found["PGD"][1] == 100
    assert 0 < found["VRA"][0] <= found["clean"][0]
    first = int((net.predict(test.x[:100]) == test.y[:100]).sum())
    assert found["PGD"][0] >= first  # what is certified stands


def test_the_standard_network_is_the_same_with_relu() -> None:
    train = load("digits", "train").first(64)
    once = replace(TINY, recipe=Recipe(steps=1))
    layers = [str(part) for part in train_network(train, STANDARD, once, 0).module.children()]
    assert "ReLU()" in layers
    assert "MinMax()" not in layers
    assert torch.equal(*(train_network(train, STANDARD, once, 0).logits(train.x) for _ in "ab"))


@pytest.mark.parametrize("size", ["small", "paper"])
def test_every_recipe_goes_through_json(size: Size) -> None:
    assert RECIPES[size].keys() == TASKS.keys()
    for training in RECIPES[size].values():
        assert Training.from_json(training.to_json()) == training
        assert isinstance(training.objective(), EMMA if training.loss == "emma" else GloRoTrades)
    assert len({trial.identity for trial in TABLE_6_7.trials(size, 0)}) == 2 * len(TASKS)


def test_the_paper_size_is_that_of_table_a_3() -> None:
    recipes = {task: training.recipe for task, training in RECIPES["paper"].items()}
    assert [recipe.epochs for recipe in recipes.values()] == [500, 200, 500, 800]
    assert {recipe.batch_size for recipe in recipes.values()} == {512}
    assert recipes[CIFAR].augmentation is not None


def test_the_report_has_ours_beside_the_thesis() -> None:
    table = report(made_of({GLORO: SOLID, STANDARD: BARE}))
    cells = {(cell.row, cell.column): cell for cell in table.cells}
    assert len(cells) == 2 * len(TASKS) * (len(COLUMNS) + 1)
    cell = cells[f"{EASY}: {GLORO}", "VRA"]
    assert cell.ours is not None
    assert (cell.ours.value, cell.paper) == (0.78, PAPER[EASY, GLORO][2])
    assert cells[f"{FASHION}: {GLORO}", "VRA"].paper is None
    assert [claim.holds for claim in table.claims] == [True] * 2 * len(TASKS)
    assert "0.957" in str(table)


def test_claims_fail_and_stay_open_where_the_figures_say_so() -> None:
    weak = SOLID | {"PGD": [100, 1000]}
    assert [claim.holds for claim in report(made_of({GLORO: weak, STANDARD: BARE})).claims[1::2]] == [False] * 4
    assert {claim.holds for claim in report(made_of({STANDARD: BARE})).claims} == {None}
