"""Categories become numbers without a loss, and every variant stands beside the thesis."""

from __future__ import annotations

import numpy as np

from modelkeep.papers.leino2022 import table_8_8_targets
from papers.leino2022.performing import performed


def test_a_column_of_each_category_becomes_one_of_numbers() -> None:
    features = ("colour=blue", "colour=green", "colour=red", "size", "kind=a", "kind=b")
    x = np.array([[0, 0, 1, 7.5, 1, 0], [1, 0, 0, 2.5, 0, 1], [0, 1, 0, 0.0, 1, 0]])
    wanted = [[2, 7.5, 0], [0, 2.5, 1], [1, 0.0, 0]]
    assert table_8_8_targets.code_categories(x, features).tolist() == wanted


def test_a_target_is_trained_as_the_variant_says_and_attacked() -> None:
    found = table_8_8_targets.attack_target(seed=0, dataset="breast-cancer", epochs=2, momentum=0.0, coded=False)
    assert set(found["accuracy"]) == set(table_8_8_targets.ATTACKS)
    assert found["train"] > 0.8


def test_the_report_has_the_thesis_beside_every_variant() -> None:
    cells = {(c.row, c.column): c for c in table_8_8_targets.report(performed([])).cells}
    found = cells["pima-diabetes, 5 epochs, momentum 0", "train accuracy"]
    assert (found.ours, found.paper) == (None, 0.789)
    assert cells["german-credit, 20 columns, 5 epochs, momentum 0", "naive"].paper == 0.618
    assert len(table_8_8_targets.trials("small", 0)) == 75
