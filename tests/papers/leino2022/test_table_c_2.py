"""Private accuracies: a tiny version on the breast cancer set, and what the report makes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from modelkeep.papers.leino2022.table_c_2 import EPSILONS, PAPER, ROWS, report, train_privately, trials
from modelkeep.study import StudyResult, Trial
from papers.leino2022.performing import performed, without


@pytest.fixture(scope="module")
def done() -> StudyResult:
    tiny = {"data": "breast-cancer", "images": 10**6, "candidates": [[0.1, 3], [0.5, 3]]}
    wanted: tuple[float | None, ...] = (None, 0.25, 16.0)
    found = performed([Trial.of(train_privately, {**tiny, "epsilon": epsilon}, 0) for epsilon in wanted])
    as_mnist = [replace(record, parameters={**record.parameters, "data": "mnist"}) for record in found.records]
    return replace(found, records=(*found.records, *as_mnist))


def test_privacy_costs_accuracy_and_more_the_smaller_epsilon_is(done: StudyResult) -> None:
    plain, strict, wide = (record.value["test"][0] for record in done.records[:3])
    assert strict < wide <= plain
    assert done.records[1].value["chosen"] in ([0.1, 3], [0.5, 3])
    assert sum(done.records[0].value[part][1] for part in ("train", "test")) == pytest.approx(569 / 2, abs=1)


def test_the_table_has_the_thesis_numbers_beside_ours(done: StudyResult) -> None:
    result = report(done)
    assert len(result.cells) == len(ROWS) * (1 + len(EPSILONS))
    cells = {(cell.row, cell.column): cell for cell in result.cells}
    assert cells["BCW", "ε = 16"].paper == PAPER["breast-cancer"][-1] == 0.808
    assert cells["BCW", "ε = 16"].ours is not None
    assert cells["BCW", "ε = 4"].ours is None
    assert all(claim.holds is None for claim in result.claims), "ε = 4 is missing"
    result.draw()


def test_a_trial_that_failed_is_missing(done: StudyResult) -> None:
    cells = {(cell.row, cell.column): cell for cell in report(without(done, 0)).cells}
    assert cells["BCW", "no defence"].ours is None


def test_both_sizes_ask_for_every_cell_of_the_table() -> None:
    for size in ("small", "paper"):
        asked = {(each.parameters["data"], each.parameters["epsilon"]) for each in trials(size, 0)}
        assert asked == {(data, epsilon) for data in ROWS for epsilon in (None, *EPSILONS)}
