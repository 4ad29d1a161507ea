"""Why the attacks of table 8.8 find more here than in the thesis: the targets' training, and how categories are coded.

The thesis trains "until convergence" with SGD and "Nesterov momentum", and names neither epochs nor the momentum. In
Keras, whose default momentum is 0, that word alone changes nothing. So each target is trained for several lengths, with
and without momentum; German credit also with its 20 columns, a number for each category (in the order of the words).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core.data import Data
from modelkeep.core.method import declare
from modelkeep.papers.leino2022.binary_tables import table
from modelkeep.papers.leino2022.table_8_6 import RECIPE
from modelkeep.papers.leino2022.table_8_8 import ACCURACIES, COLUMNS, PAPER, attack_split
from modelkeep.papers.result import mean, values
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.table import Cell, PaperTable
from modelkeep.privacy.membership import BayesianWhiteBox, MembershipAttack, Naive, ShadowClassifier
from modelkeep.study.names import trial
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial
from modelkeep.training import SGD, Recipe
from modelkeep.zoo import architectures, datasets

LENGTHS = ((100, 0.9), (20, 0.9), (100, 0.0), (20, 0.0), (5, 0.0))
"""Epochs and momentum; the first pair is that of table 8.8."""
ATTACKS = ("naive", "shadow-bb", "bayesian-wb")
REPEATS = {"small": 5, "paper": 10}


@trial("leino2022/table-8.8-targets", version=1)
def attack_target(*, seed: int, dataset: str, epochs: int, momentum: float, coded: bool) -> dict[str, Any]:
    """What three attacks reach on one split, and the target's own accuracies; `coded`: a number for each category."""
    x, y = table(dataset)
    if coded:
        x = code_categories(x, datasets.load(dataset, "train").features or ())
    data = Data(torch.from_numpy(x).float(), torch.from_numpy(y).long(), ("smaller", "larger"), name=dataset)
    recipe = Recipe(
        epochs=epochs,
        batch_size=RECIPE.batch_size,
        optimizer=SGD(momentum=momentum, nesterov=momentum > 0, weight_decay=1e-4),
        learning_rate=RECIPE.learning_rate,
    )
    attacks: dict[str, MembershipAttack] = {
        "naive": Naive(),
        "shadow-bb": ShadowClassifier(),
        "bayesian-wb": BayesianWhiteBox(),
    }
    return attack_split(data, architectures.dense, recipe, attacks, seed)


def code_categories(x: NDArray[Any], features: Sequence[str]) -> NDArray[Any]:
    """The columns `(n, d)` with those of one category, "column=value", made one column of their numbers."""
    made: dict[str, NDArray[Any]] = {}
    for j, feature in enumerate(features):
        column, one_hot, _ = feature.partition("=")
        if not one_hot:
            made[column] = x[:, j]
            continue
        number = sum(each.startswith(f"{column}=") for each in features[:j])
        made[column] = made.get(column, np.zeros(len(x))) + number * x[:, j]
    return np.stack(list(made.values()), axis=1)


def _variants() -> list[dict[str, Any]]:
    return [
        {"dataset": dataset, "epochs": epochs, "momentum": momentum, "coded": coded}
        for dataset, codes in (("pima-diabetes", (False,)), ("german-credit", (False, True)))
        for coded in codes
        for epochs, momentum in LENGTHS
    ]


def trials(size: Size, seed: int) -> Sequence[Trial]:
    """A trial per variant and split."""
    return [Trial.of(attack_target, variant, seed + i) for i in range(REPEATS[size]) for variant in _variants()]


def report(result: StudyResult) -> PaperTable:
    """The attacks' accuracies by variant, and the targets' own, beside the thesis' (tables 8.7 and 8.8)."""
    cells, seed = [], result.provenance.seed
    for variant in _variants():
        dataset = variant["dataset"]
        found = values(result.records, **variant)
        columns = ", 20 columns" if variant["coded"] else ""
        row = f"{dataset}{columns}, {variant['epochs']} epochs, momentum {variant['momentum']:g}"
        for part, number in zip(("train", "test"), ACCURACIES[dataset], strict=True):
            cells.append(Cell(row, f"{part} accuracy", mean([value[part] for value in found], seed), number))
        for name in ATTACKS:
            printed = PAPER[dataset][COLUMNS.index(name)]
            cells.append(Cell(row, name, mean([value["accuracy"][name] for value in found], seed), printed))
    return PaperTable(study=result.study, cells=tuple(cells), provenance=result.provenance)


STUDY = declare(
    "study",
    "privacy-table-8.8-targets",
    paper="Leino2022, tables 8.7 and 8.8",
    does="how the length of the training and the coding of categories change what membership attacks find",
)(PaperStudy(trials, report))
