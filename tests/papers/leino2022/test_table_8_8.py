"""A tiny version of table 8.8, on data that need no download."""

from __future__ import annotations

from modelkeep.papers.leino2022 import table_8_8
from modelkeep.study import Trial
from papers.leino2022.performing import performed


def test_the_table_has_the_thesis_beside_ours_and_decides_by_pairs() -> None:
    trials = [
        Trial.of(table_8_8.attack, {"dataset": "breast-cancer", "epochs": 2, "shadows": 2}, seed) for seed in (0, 1)
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
    assert len(table_8_8.trials("small", 0)) == 30
