"""Paper studies: each size and seed is a study of its own, and the report says where it stands in the paper."""

from __future__ import annotations

import pytest

from modelkeep.core.errors import InputError
from modelkeep.core.method import declare
from modelkeep.papers.curves import PaperCurves
from modelkeep.papers.result import mean
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.study import Ledger, Local, StudyResult, Trial, run


def trials(size: Size, seed: int) -> list[Trial]:
    xs = {"small": [1, 2], "paper": [1, 2, 3]}[size]
    return [Trial.of("study.trials:noise", {"x": x}, seed) for x in xs]


def report(result: StudyResult) -> PaperCurves:
    ticks = tuple(record.parameters["x"] for record in result.records)
    found = tuple(mean(record.value or [], 0) for record in result.records)
    return PaperCurves(
        study=result.study,
        x_label="x",
        y_label="noise",
        x=ticks,
        series={"noise": found},
        paper={},
        provenance=result.provenance,
    )


NOISE = declare("study", "noise", paper="Leino2022, nowhere", does="noise")(PaperStudy(trials, report))


def test_sizes_and_seeds_are_studies_of_their_own() -> None:
    assert NOISE.study("paper", 3).name == "noise-paper-seed-3"
    assert len(NOISE.study("paper", 3).trials) == 3
    assert {trial.seed for trial in NOISE.study("paper", 3).trials} == {3}


def test_the_same_seed_gives_the_same_report() -> None:
    made = []
    for _ in range(2):
        with Ledger(":memory:") as ledger:
            made.append(NOISE.report(run(NOISE.study("small", 5), ledger, Local(1))))
    first, again = made
    assert isinstance(first, PaperCurves)
    assert isinstance(again, PaperCurves)
    assert first.series == again.series
    assert first.where == "Leino2022, nowhere"
    assert "Leino2022: Klas Leino, Identifying" in str(first)


def test_a_study_must_be_declared() -> None:
    with pytest.raises(InputError, match=r'STUDY = declare\("study"'):
        PaperStudy(trials, report).study("small", 0)
