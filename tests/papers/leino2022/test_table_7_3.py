"""Tiny versions of table 7.3's trials, on data that need no download, and what the report makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest
import torch

from modelkeep import Data
from modelkeep.certify.guarantees import Affinity, RelaxedTopK, Standard
from modelkeep.core.results import Estimate, Provenance
from modelkeep.papers.leino2022 import (
    chapter_7_figures as pictures,
)
from modelkeep.papers.leino2022 import (
    table_7_3 as relaxed,
)
from modelkeep.papers.leino2022 import (
    table_7_3 as relaxing,
)
from modelkeep.papers.leino2022.overlapping_classes import draw_points
from modelkeep.papers.leino2022.table_7_3 import GROUPS, GUARANTEES, find_guarantee, relax
from modelkeep.papers.table import PaperTable
from modelkeep.study import Record, StudyResult, Trial
from modelkeep.zoo import datasets
from papers.leino2022.performing import performed, without

FASHION = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


@pytest.fixture(scope="module")
def plane() -> StudyResult:
    """The three nets of the overlapping set, on fewer points."""
    tiny = {"images": 600, "epochs": 40, "rate": 1e-2, "network": "dense"}
    return performed(
        [Trial.of(relax, {"data": "overlapping", "guarantee": name, **tiny}, 0) for name in GUARANTEES["overlapping"]]
    )


def cell(result: PaperTable, row: str, column: str) -> Any:
    return next(c for c in result.cells if c.row.startswith(row) and c.column == column)


def test_where_classes_overlap_relaxed_guarantees_certify_more(plane: StudyResult) -> None:
    standard, top_two, affinity = (record.value for record in plane.records)
    assert standard["VRA"][0] < affinity["VRA"][0]
    assert standard["VRA"][0] < top_two["VRA"][0]
    assert standard["rejection rate"][0] > top_two["rejection rate"][0]
    assert affinity["within a group"][0] == affinity["within a group"][1]
    assert top_two["VRA by"]["RT2"] == top_two["VRA"]
    assert top_two["VRA by"]["standard"][0] < top_two["VRA"][0]
    assert standard["top-k robust"] == [[10_000 - standard["rejection rate"][0]] * 2]
    for value in (standard, top_two, affinity):
        assert value["VRA"][0] + value["rejection rate"][0] <= 10_000
        assert value["VRA"][0] <= value["clean accuracy"][0]


@pytest.fixture
def clothes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Digits by the names of clothes."""
    load = datasets.load

    def digits(name: str, part: Literal["train", "test"]) -> Data:
        return replace(load("digits", part), classes=FASHION)

    monkeypatch.setattr(datasets, "load", digits)


@pytest.mark.usefixtures("clothes")
@pytest.mark.parametrize("network", ["2C2F", "B.5"])
def test_images_are_trained_on_and_certified(network: str) -> None:
    tiny = {"images": 300, "epochs": 2, "rate": 2e-3, "network": network}
    trial = Trial.of(relax, {"data": "fashion-mnist", "guarantee": "RT3", **tiny}, 0)
    value = performed([trial]).records[0].value
    n = len(datasets.load("digits", "test"))
    assert value["VRA"][1] == value["rejection rate"][1] == n
    assert len(value["top-k robust"]) == 3
    assert value["clean accuracy"][0] >= value["top-1 accuracy"][0]


def test_surfaces_side_by_side() -> None:
    drawn = pictures.draw_decision_surfaces(0, points=200, epochs=1)
    assert [ax.get_title(loc="left") for ax in drawn.axes] == ["plain", "GloRo", "RT2 GloRo", "affinity GloRo"]


@pytest.mark.usefixtures("clothes")
def test_the_clothes_shown_are_those_that_only_the_relaxed_guarantee_holds_for() -> None:
    found = pictures.draw_named_clothes(0, images=1_400, epochs=15)
    assert 1 <= len(found.x) <= 16
    assert (found.sets.sum(dim=1) >= 2).all()
    assert (found.sets.sum(dim=1) <= 3).all()


def test_guarantees_by_name() -> None:
    data = draw_points(8, seed=0)
    assert find_guarantee("standard", data, "overlapping") == Standard()
    assert find_guarantee("RT3", data, "overlapping") == RelaxedTopK(3)
    assert find_guarantee("affinity", data, "overlapping") == Affinity(GROUPS["overlapping"], data.classes)
    clothes = replace(data, classes=FASHION)
    found = relaxing.affinity(clothes, "fashion-mnist")
    assert sorted(name for group in found.groups for name in group) == sorted(FASHION)
    assert sorted(len(tuple(group)) for group in found.groups) == [1] * 6 + [4]


def test_sets_are_within_a_group_or_not() -> None:
    groups = Affinity.of_indices([(0, 1), (1, 2)], 3)
    sets = torch.tensor([[True, True, False], [True, False, True], [False, True, False]])
    assert groups.contains(sets).tolist() == [True, False, True]


def made_up(vra: dict[str, int], rejected: dict[str, int]) -> StudyResult:
    """A record for every trial, with so many verified and rejected of 1,000 by guarantee."""
    records = []
    for trial in relaxed.trials("small", 0):
        name = trial.parameters["guarantee"]
        value = {
            "VRA": [vra[name[:2]], 1_000],
            "rejection rate": [rejected[name[:2]], 1_000],
            "clean accuracy": [900, 1_000],
            "top-k robust": [[640, 800]],
            "within a group": [400, 800],
            "VRA by": {
                other: [900 if other == name else 600, 1_000] for other in ("standard", "RT2", "RT3", "affinity")
            },
        }
        records.append(
            Record(trial.identity, trial.name, 1, trial.parameters, 0, trial.home, "done", 1, 1.0, value, None)
        )
    return StudyResult(study="made up", records=tuple(records), provenance=Provenance(None, None, 0, 1.0, "test"))


def test_the_report_has_ours_and_the_thesis_rows_and_judges_its_claims() -> None:
    result = relaxed.report(made_up({"st": 700, "RT": 800, "af": 690}, {"st": 200, "RT": 100, "af": 150}))
    assert cell(result, "fashion-mnist at 0.3, RT3", "VRA").ours == Estimate.rate(800, 1_000)
    assert cell(result, "EuroSAT, RT3", "rejection rate").paper == 0.073
    assert [claim.verdict for claim in result.claims] == [
        "holds",
        "holds",
        "unclear",
        "holds",
        "holds",
        "holds",
        "unclear",
    ]
    assert "fashion-mnist +10.0" in result.claims[0].found
    assert "EuroSAT, RT3: its data cannot be had here" in str(result).replace("\n", " ")
    worse = relaxed.report(made_up({"st": 700, "RT": 500, "af": 800}, {"st": 200, "RT": 300, "af": 150}))
    assert [claim.verdict for claim in worse.claims[:3]] == ["does not hold", "does not hold", "holds"]


def test_what_is_missing_is_said(plane: StudyResult) -> None:
    result = relaxed.report(without(plane, 1))
    assert cell(result, "overlapping at 0.04, RT2", "VRA").ours is None
    assert cell(result, "overlapping at 0.04, standard", "VRA").ours is not None
    assert {claim.verdict for claim in result.claims} == {"unclear"}


def test_both_sizes_have_a_trial_for_every_row() -> None:
    for size in ("small", "paper"):
        assert len({trial.identity for trial in relaxed.trials(size, 0)}) == 9
