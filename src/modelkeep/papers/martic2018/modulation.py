"""Section 6: models that are harder or easier to complete at the same accuracy, found by a search and judged anew."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from modelkeep.completion.curve import ratio
from modelkeep.completion.modulation import Configuration, Direction, Measurement, Modulation, modulate
from modelkeep.completion.part import Part
from modelkeep.completion.problem import Problem
from modelkeep.completion.procedures.joint_training import FrozenTraining, JointTraining
from modelkeep.completion.retraining import train_from_scratch
from modelkeep.completion.searchable_network import searchable_network
from modelkeep.core.data import Data
from modelkeep.core.method import declare
from modelkeep.core.model import Model
from modelkeep.papers.result import Claim
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.table import Cell, PaperTable
from modelkeep.study.device import best_device
from modelkeep.study.folder import workdir
from modelkeep.study.names import trial
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial
from modelkeep.training import SGD, Adam, Recipe
from modelkeep.training.batches import derive_seed
from modelkeep.zoo import datasets

SPACE: dict[str, list[Any]] = {
    "width": [8, 12, 16],
    "before": [0, 1, 2, 3],
    "after": [0, 1, 2, 3],
    "hidden": [0, 32, 128],
    "kernel": [3, 5],
    "stride": [3, 4],
    "normalisation": ["none", "batch", "group"],
    "skips": [False, True],
    "dropout": [0.0, 0.3],
    "optimizer": ["adam", "sgd"],
    "rate": [0.5, 1.0, 2.0],
    "weight_decay": [0.0, 1e-4, 1e-3],
}
# With batch norm it is in the middle: without, it takes 0.4 of the steps already, and a search found nothing easier.
BASELINE: dict[str, Any] = {
    "width": 12,
    "before": 1,
    "after": 1,
    "hidden": 32,
    "kernel": 3,
    "stride": 4,
    "normalisation": "batch",
    "skips": False,
    "dropout": 0.0,
    "optimizer": "adam",
    "rate": 1.0,
    "weight_decay": 0.0,
}
RATES = {"adam": 2e-3, "sgd": 0.05}
"""What a `rate` of 1 is."""


@dataclass(frozen=True)
class Scale:
    """How much is trained and searched: the same for all settings of one search."""

    examples: int
    held_out: int
    steps: int
    evaluate_every: int
    trials: int
    search_seeds: int
    finalists: int
    final_seeds: int
    held_out_seeds: int
    data: str = "fashion-mnist"
    missing: str = "lower"
    alpha: float = 0.9
    tolerance: float = 0.01


_SCALES: dict[Size, Scale] = {
    "small": Scale(4000, 1000, 200, 5, trials=30, search_seeds=2, finalists=5, final_seeds=6, held_out_seeds=8),
    "medium": Scale(10_000, 5000, 600, 10, trials=100, search_seeds=3, finalists=8, final_seeds=9, held_out_seeds=16),
}


@trial("martic2018/modulation", formerly=("modelkeep.completion.studies.modulating:search",))
def search(*, seed: int, direction: Direction, scale: dict[str, Any]) -> Modulation:
    """A whole search in one direction, and its judgement. It goes on where it was stopped."""
    sized = Scale(**scale)
    first = 1000 * seed
    searched = range(first, first + sized.search_seeds)
    final = range(searched.stop, searched.stop + sized.final_seeds)
    judged = range(first + 500, first + 500 + sized.held_out_seeds)
    return modulate(
        SPACE,
        lambda settings, one: measure(settings, one, sized),
        baseline=BASELINE,
        direction=direction,
        trials=sized.trials,
        finalists=sized.finalists,
        tolerance=sized.tolerance,
        search_seeds=searched,
        final_seeds=final,
        held_out_seeds=judged,
        seed=seed,
        storage=workdir() / "search.journal",
    )


def measure(settings: Configuration, seed: int, scale: Scale) -> Measurement:
    """Train such a network, take away its piece before (or after) the cut, and complete it by T1 and by T2."""
    data, held_out = _data(scale.data, scale.examples, scale.held_out)
    recipe = _recipe(settings, scale)
    trained = train_from_scratch(_model(settings, data), data, held_out, recipe, seed=seed)
    if trained.curve.best >= trained.curve.losses[0] or trained.curve.losses[-1] == 1:
        return Measurement({"T1": 1.0, "T2": 1.0}, 0.0)  # it learned nothing, or diverged: no model of equal accuracy
    problem = Problem(trained.model, Part(scale.missing, (scale.missing,)), data, held_out, recipe)
    again = derive_seed(seed, "retraining")
    ratios = {
        procedure.name: ratio(trained.curve, procedure(problem, seed=again).curve, scale.alpha).value
        for procedure in (JointTraining(), FrozenTraining())
    }
    return Measurement(ratios, 1 - trained.curve.best)


def _model(settings: Configuration, data: Data) -> Model:
    """The network of these settings; its weights are drawn when it is trained."""
    with torch.random.fork_rng(devices=[]):
        module = searchable_network(
            data.input_shape,
            len(data.classes),
            width=settings["width"],
            before=settings["before"],
            after=settings["after"],
            hidden=settings["hidden"],
            kernel=settings["kernel"],
            stride=settings["stride"],
            normalisation=settings["normalisation"],
            skips=settings["skips"],
            dropout=settings["dropout"],
        )
    return Model(module, input_shape=data.input_shape, classes=data.classes, device=best_device())


def _recipe(settings: Configuration, scale: Scale) -> Recipe:
    decay = settings["weight_decay"]
    optimizer = Adam(weight_decay=decay) if settings["optimizer"] == "adam" else SGD(momentum=0.9, weight_decay=decay)
    return Recipe(
        steps=scale.steps,
        batch_size=64,
        optimizer=optimizer,
        learning_rate=settings["rate"] * RATES[settings["optimizer"]],
        evaluate_every=scale.evaluate_every,
    )


@lru_cache(maxsize=1)
def _data(name: str, examples: int, held_out: int) -> tuple[Data, Data]:
    return datasets.load(name, "train").sample(examples, 0), datasets.load(name, "test").sample(held_out, 0)


def _trials(size: Size, seed: int) -> Sequence[Trial]:
    return [
        Trial.of(search, {"direction": direction, "scale": vars(_SCALES[size])}, seed)
        for direction in ("harder", "easier")
    ]


def _report(result: StudyResult) -> PaperTable:
    done = {
        record.parameters["direction"]: Modulation.from_json(json.dumps(record.value))
        for record in result.records
        if record.state == "done"
    }
    return PaperTable(
        provenance=result.provenance,
        study=result.study,
        cells=tuple(cell for direction in ("harder", "easier") for cell in _cells(direction, done.get(direction))),
        claims=tuple(_claim(direction, done.get(direction)) for direction in ("harder", "easier")),
    )


def _cells(direction: str, found: Modulation | None) -> list[Cell]:
    """Hardness and accuracy of the baseline and of what was found; None where the search has not run."""
    if found is None:
        return [Cell(direction, "hardness", None, None)]
    cells = []
    for row, standing in (("baseline", found.baseline), ("found", found.found)):
        cells.append(Cell(f"{direction}: {row}", "hardness", standing.hardness, None, f"under {standing.strongest}"))
        cells.append(Cell(f"{direction}: {row}", "accuracy", standing.accuracy, None))
    return [*cells, Cell(f"{direction}: found − baseline", "hardness", found.difference, None)]


def _claim(direction: str, found: Modulation | None) -> Claim:
    purpose = {"harder": "hard (to increase security)", "easier": "easy (to encourage robustness)"}[direction]
    says = f"Architectures can be devised with the objective that completion be {purpose}."
    if found is None:
        return Claim(says, "the search has not run.", None)
    changed = {k: v for k, v in found.found.settings.items() if v != found.baseline.settings[k]}
    words = ", ".join(f"{name}={value}" for name, value in changed.items()) or "nothing better"
    return Claim(says, f"on seeds not searched, {found.difference} with {words}.", found.holds)


MODULATION = declare(
    "study",
    "completion-modulation",
    paper="Martic2018, section 6: modulating the hardness of completion",
    does="A search finds models of the same accuracy that are harder, or easier, to complete at a given cut.",
    extra="completion",
)(PaperStudy(_trials, _report, sizes=("small", "medium")))
