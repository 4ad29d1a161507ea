"""Public first layers: a tiny version of both ways, and what the report makes of it."""

from __future__ import annotations

import pytest

from modelkeep.papers.leino2022.public_layers import EPSILONS, WAYS, report, train_on_top, trials
from modelkeep.study import StudyResult, Trial
from papers.leino2022.performing import performed


@pytest.fixture(scope="module")
def done() -> StudyResult:
    tiny = {"split": 0, "epsilon": 4.0, "images": 800, "pictures": 300}
    return performed([Trial.of(train_on_top, {**tiny, "way": way}, 0) for way in WAYS])


def test_both_ways_give_an_accuracy_of_the_unseen_quarter(done: StudyResult) -> None:
    assert all(record.value["test"][1] == 200 for record in done.records)
    cells = {(cell.row, cell.column): cell for cell in report(done).cells}
    assert cells["MNIST, public start", "ε = 4"].ours is not None
    assert cells["MNIST, public start", "ε = 1"].ours is None
    assert cells["MNIST, public start", "ε = 1"].paper == 0.132
    report(done).draw()


def test_every_way_is_tried_at_every_epsilon() -> None:
    asked = {(each.parameters["way"], each.parameters["epsilon"]) for each in trials("small", 0)}
    assert asked == {(way, epsilon) for way in WAYS for epsilon in EPSILONS}
