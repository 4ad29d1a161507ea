"""A tiny version of table 8.8, on data that need no download."""

from __future__ import annotations

from dataclasses import replace

from modelkeep import datasets
from modelkeep.papers.leino2022 import table_8_8
from modelkeep.study import Trial
from modelkeep.training import Recipe
from papers.leino2022.performing import performed


def test_the_table_has_the_thesis_beside_ours_and_decides_by_pairs() -> None:
    trials = [
        Trial.of(table_8_8.attack, {"dataset": "breast-cancer", "epochs": 2, "shadows": 2, "validation": 2}, seed)
        for seed in (0, 1)
    ]
    result = table_8_8.report(performed(trials))
    cells = {(c.row, c.column): c for c in result.cells}
    assert cells["breast-cancer", "bayesian-wb"].paper == 0.514
    for column in (*table_8_8.COLUMNS, *table_8_8.NEWER):
        found = cells["breast-cancer", column].ours
        assert found is not None
        assert 0.3 < found.value < 0.8
    naive = cells["breast-cancer", "naive"].ours
    train, test = (cells["breast-cancer", f"{part} accuracy"].ours for part in ("train", "test"))
    assert naive is not None and train is not None and test is not None  # noqa: PT018
    assert abs(2 * naive.value - 1 - (train.value - test.value)) < 1e-9  # the advantage of naive is the gap
    assert len(result.claims) == 1


def test_two_splits_decide_nothing_and_five_do() -> None:
    split = {"accuracy": {"naive": 0.5, "shadow-bb": 0.5, "bayesian-wb": 0.6, "nn-wb": 0.5}}
    assert [table_8_8._paired("mnist", [split] * n, 0).holds for n in (2, 5)] == [None, True]


def test_the_paper_size_has_the_thesis_own_numbers() -> None:
    settings = {trial.parameters["dataset"]: trial.parameters for trial in table_8_8.trials("paper", 0)}
    assert set(settings) == set(table_8_8.PAPER)
    assert settings["cifar-10"]["images"] == 60_000
    assert settings["cifar-10"]["shadows"] == settings["cifar-10"]["proxies"] == 10
    assert len(table_8_8.trials("paper", 0)) == 6 * 10
    assert max(trial.parameters.get("images", 0) for trial in table_8_8.trials("small", 0)) == 1_200


def test_five_layers_of_lenet_are_compared() -> None:
    """A LeNet on a few pictures, with as few networks as there can be."""
    pictures = datasets.load("digits")
    larger = replace(pictures.first(24), x=pictures.first(24).x.repeat_interleave(2, 2).repeat_interleave(2, 3))
    found = table_8_8.run_on_images(
        larger, Recipe(steps=1), proxies=1, shadows=2, validation=2, records=4, others=2, seed=0
    )
    assert set(found["accuracy"]) == {*table_8_8.COLUMNS, *table_8_8.NEWER}
    assert all(0 <= each <= 1 for each in found["precision"].values())
