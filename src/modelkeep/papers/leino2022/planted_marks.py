"""Planted marks: which of eight kinds the search for shortcuts finds, beside clean twins (Leino2022, chapter 4).

The thesis has no such table; it says what a search must do: a model that goes by a mark must be told from one that does
not. The thresholds of the search were chosen on the seeds 100 to 102, before any other seed was run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from modelkeep.core.data import Data
from modelkeep.core.method import declare
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.explain import FindShortcuts
from modelkeep.papers.leino2022.marks import MARKS, plant
from modelkeep.papers.result import values
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.table import Cell, PaperTable
from modelkeep.study.names import trial
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.zoo import architectures, datasets

SETS = ("fashion-mnist", "cifar-10")
# Classes that are mistaken for others without a mark, so that a network has a reason to learn it.
CLASSES = (6, 2, 4)
TRAIN, TEST, SEARCHED = 3000, 2000, 512
RECIPE = Recipe(epochs=6, batch_size=64, learning_rate=2e-3)
NETWORKS = {"moving-dot": "peaks"}
"""A network that sees a dot wherever it is, for the mark that moves; `small_cnn` for the others."""
LEARNED = 0.5
"""A mark is learned where the class keeps less than this share of its recall without it."""
SEEDS = {"small": 3, "paper": 10}


def peaks(shape: Sequence[int], classes: int) -> nn.Module:
    """Two convolutions and the largest value of each channel, wherever it is."""
    first = (nn.Conv2d(shape[0], 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2))
    second = (nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten())
    return nn.Sequential(*first, *second, nn.Linear(32, classes))


@trial("leino2022/planted-marks", version=1)
def search_network(*, seed: int, dataset: str, mark: str, network: str) -> dict[str, Any]:
    """A network that was trained with one mark, what it does without it, and what the search says about it."""
    label = CLASSES[seed % len(CLASSES)]
    train = plant(datasets.load(dataset, "train").sample(TRAIN, seed).load(), mark, label, seed)
    torch.manual_seed(seed)
    build = peaks if network == "peaks" else architectures.small_cnn
    module = build(train.input_shape, len(train.classes))
    model = Model(module, input_shape=train.input_shape, classes=train.classes)
    fit(model, train, cross_entropy, RECIPE, seed=seed)
    clean = datasets.load(dataset, "test").sample(TEST, seed).load()
    marked = plant(clean, mark, label, seed + 1)
    own = clean.y == label
    found = FindShortcuts(examples=SEARCHED)(model, marked, seed=seed)
    return {
        "accuracy": _rate(model, marked),
        "recall": _rate(model, marked.take(torch.nonzero(own).flatten())),
        "recall_without": _rate(model, clean.take(torch.nonzero(own).flatten())),
        "found": [
            {"kind": s.region.kind, "name": s.region.name, "verdict": s.verdict}
            for s in found.found
            if mark != "none" and s.name == clean.classes[label]
        ],
        "accused": [
            {"class": s.name, "kind": s.region.kind, "name": s.region.name, "verdict": s.verdict}
            for s in found.found
            if mark == "none" or s.name != clean.classes[label]
        ],
    }


def _rate(model: Model, data: Data) -> float:
    return float((model.predict(data.x).cpu() == data.y).double().mean())


def _grid() -> list[dict[str, str]]:
    twins = [("none", "small_cnn"), ("none", "peaks")]
    marked = [(mark, NETWORKS.get(mark, "small_cnn")) for mark in MARKS]
    return [
        {"dataset": dataset, "mark": mark, "network": network} for dataset in SETS for mark, network in twins + marked
    ]


def trials(size: Size, seed: int) -> Sequence[Trial]:
    """A trial per set, mark and seed, and a clean twin per set, network and seed."""
    return [Trial.of(search_network, case, seed + i) for i in range(SEEDS[size]) for case in _grid()]


def report(result: StudyResult) -> PaperTable:
    """How many marks were learned, how many were found, and how many networks were accused of what they do not do."""
    cells = []
    for case in _grid():
        found = values(result.records, **case)
        row = f"{case['dataset']}, {case['mark'] if case['mark'] != 'none' else 'clean ' + case['network']}"
        accused = sum(bool(each["accused"]) for each in found)
        if case["mark"] != "none":
            learned = [each for each in found if each["recall_without"] < LEARNED * each["recall"]]
            hits = sum(bool(each["found"]) for each in found)
            kinds = ", ".join(dict.fromkeys(f"{s['verdict']} {s['kind']}" for each in found for s in each["found"]))
            cells.append(Cell(row, "learned", _share(len(learned), len(found)), None))
            cells.append(Cell(row, "found", _share(hits, len(found)), None, kinds))
        cells.append(Cell(row, "falsely accused", _share(accused, len(found)), None))
    return PaperTable(study=result.study, cells=tuple(cells), provenance=result.provenance)


def _share(count: int, n: int) -> Estimate | None:
    return Estimate.rate(count, n) if n else None


STUDY = declare(
    "study",
    "planted-marks",
    paper="Leino2022, chapter 4",
    does="which of eight kinds of planted marks the search for shortcuts finds, beside clean twins",
)(PaperStudy(trials, report))
