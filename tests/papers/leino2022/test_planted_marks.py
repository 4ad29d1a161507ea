"""The study of planted marks: its table counts what was learned, found and wrongly accused."""

from __future__ import annotations

from typing import Any

import torch

from modelkeep.core.results import Provenance
from modelkeep.papers.leino2022.planted_marks import CLASSES, peaks, report, trials
from modelkeep.study import Record, StudyResult


def said(found: int, accused: int) -> dict[str, Any]:
    suspect = {"kind": "frame", "name": "the frame", "verdict": "planted"}
    return {
        "accuracy": 0.8,
        "recall": 0.9,
        "recall_without": 0.1,
        "found": [suspect] * found,
        "accused": [suspect] * accused,
    }


def done(said: list[tuple[dict[str, str], dict[str, Any]]]) -> StudyResult:
    records = tuple(
        Record(str(i), "leino2022/planted-marks", 1, case, i, "here", "done", 1, 1.0, value, None)
        for i, (case, value) in enumerate(said)
    )
    return StudyResult(study="tiny", records=records, provenance=Provenance(None, None, 0, 1.0, "test"))


def test_the_table_counts_seeds_and_not_suspects() -> None:
    case = {"dataset": "cifar-10", "mark": "border", "network": "small_cnn"}
    twin = {"dataset": "cifar-10", "mark": "none", "network": "peaks"}
    records = [(case, said(2, 0)), (case, said(0, 1)), (twin, said(0, 1)), (twin, said(0, 0)), (twin, said(0, 0))]
    cells = {(c.row, c.column): c for c in report(done(records)).cells}
    assert cells["cifar-10, border", "learned"].ours is not None
    assert cells["cifar-10, border", "learned"].ours.value == 1.0
    found, accused = cells["cifar-10, border", "found"], cells["cifar-10, clean peaks", "falsely accused"]
    assert (found.ours.value, found.note) == (0.5, "planted frame")  # type: ignore[union-attr]
    assert (accused.ours.value, accused.ours.n) == (1 / 3, 3)  # type: ignore[union-attr]
    assert cells["fashion-mnist, line", "found"].ours is None


def test_every_mark_has_a_trial_per_set_and_seed_beside_clean_twins_of_both_networks() -> None:
    made = trials("small", 0)
    assert len(made) == 3 * 2 * (2 + 8)
    assert len(CLASSES) == 3


def test_the_network_of_the_moving_dot_sees_it_wherever_it_is() -> None:
    torch.manual_seed(0)
    network = peaks((1, 32, 32), 3)
    x = torch.zeros(2, 1, 32, 32)
    x[0, :, 14:16, 14:16] = x[1, :, 16:18, 16:18] = 1.0  # shifted by an even number of pixels
    torch.testing.assert_close(*network(x))
