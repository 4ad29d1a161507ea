"""Private accuracies and advantages: a tiny version on the breast cancer set, and what the reports make of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from modelkeep.papers.leino2022 import figure_c_1
from modelkeep.papers.leino2022.defended import defend
from modelkeep.papers.leino2022.table_c_2 import EPSILONS, PAPER, REPEATS, ROWS, defences, report, trials
from modelkeep.study import StudyResult, Trial
from papers.leino2022.performing import performed, without


@pytest.fixture(scope="module")
def done() -> StudyResult:
    tiny = {"data": "breast-cancer", "images": 240, "split": 0, "shadows": 2}
    wanted = (("no defence", None), ("private", 0.25), ("private", 4.0), ("early stop", None))
    found = performed([Trial.of(defend, {**tiny, "defence": name, "epsilon": epsilon}, 0) for name, epsilon in wanted])
    as_mnist = [replace(record, parameters={**record.parameters, "data": "mnist"}) for record in found.records]
    return replace(found, records=(*found.records, *as_mnist))


def test_privacy_costs_accuracy_and_more_the_smaller_epsilon_is(done: StudyResult) -> None:
    plain, strict, wide = (record.value["test"][0] for record in done.records[:3])
    assert strict < wide <= plain + 2
    assert done.records[1].value["chosen"] in (0.1, 0.5, 2.0)
    assert done.records[1].value["delta"] == pytest.approx(1 / 600)
    assert sum(done.records[0].value[part][1] for part in ("train", "test")) == 120
    assert set(done.records[0].value["advantage"]) == {"naive", "loss", "rmia"}


def test_the_table_has_the_thesis_numbers_beside_ours(done: StudyResult) -> None:
    result = report(done)
    assert len(result.cells) == len(ROWS) * len(defences())
    cells = {(cell.row, cell.column): cell for cell in result.cells}
    assert cells["BCW", "ε = 16"].paper == PAPER["breast-cancer"][-1] == 0.808
    assert cells["BCW", "dropout"].paper == 0.961
    assert cells["BCW", "weight decay"].paper is None
    assert cells["BCW", "ε = 4"].ours is not None
    assert cells["BCW", "ε = 16"].ours is None
    assert len(result.claims) == 2
    result.draw()


def test_the_advantages_stand_beside_both_bounds(done: StudyResult) -> None:
    result = figure_c_1.report(done)
    cells = {(cell.row, cell.column): cell for cell in result.cells}
    assert cells["BCW, rmia", "ε = 0.25"].note == "at most 0.126; e^ε − 1 is 0.284"
    assert cells["BCW, rmia", "ε = 4"].note == "at most 0.964; e^ε − 1 is vacuous"
    assert cells["BCW, rmia", "no defence"].note == ""
    assert result.claims[0].holds is not None
    result.draw()


def test_a_trial_that_failed_is_missing(done: StudyResult) -> None:
    cells = {(cell.row, cell.column): cell for cell in report(without(done, 0)).cells}
    assert cells["BCW", "no defence"].ours is None


def test_both_sizes_ask_for_every_cell_of_the_table() -> None:
    for size in ("small", "paper"):
        asked = {(each.parameters["data"], each.parameters["epsilon"]) for each in trials(size, 0)}
        assert asked == {(data, epsilon) for data in ROWS for epsilon in (None, *EPSILONS)}
    assert len(trials("small", 0)) == len(defences()) * sum(REPEATS.values())
