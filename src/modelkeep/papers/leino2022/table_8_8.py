"""Table 8.8: membership attacks on real tables, in the thesis' set-up, with newer attacks beside them.

A quarter of the rows is learned, a quarter is not seen, and half is the attacker's. Features are standardised by the
target's own training rows. The stopping rule is that of table 8.6, fixed beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from modelkeep.core.card import Preprocessing
from modelkeep.core.data import Data
from modelkeep.core.method import declare
from modelkeep.core.model import Model
from modelkeep.papers.leino2022.binary_tables import table
from modelkeep.papers.leino2022.table_8_6 import EPOCHS, RECIPE
from modelkeep.papers.result import Claim, mean, show_estimate, values
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.table import Cell, PaperTable
from modelkeep.privacy.membership import (
    RMIA,
    BayesianWhiteBox,
    Knowledge,
    LearnedWhiteBox,
    LiRA,
    MembershipAttack,
    Naive,
    Quantile,
    ShadowClassifier,
)
from modelkeep.study.names import trial
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.zoo import architectures

COLUMNS = ("naive", "shadow-bb", "bayesian-wb", "nn-wb")
PAPER = {
    "breast-cancer": (0.522, 0.500, 0.514, 0.523),
    "pima-diabetes": (0.517, 0.508, 0.517, 0.519),
    "german-credit": (0.618, 0.582, 0.623, 0.622),
}
NEWER = ("lira", "rmia", "quantile")
REPEATS = {"small": 10, "paper": 100}


@trial("leino2022/table-8.8", version=1)
def attack(*, seed: int, dataset: str, epochs: int, shadows: int) -> dict[str, Any]:
    """The balanced accuracy and the area of each attack on one split, and the target's own accuracies."""
    x, y = table(dataset)
    rows = Data(torch.from_numpy(x).float(), torch.from_numpy(y).long(), ("smaller", "larger"), name=dataset)
    members, non_members, hold_out = rows.split(0.25, 0.25, 0.5, seed=seed)
    centre, scale = members.x.mean(dim=0), members.x.std(dim=0)
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        module = architectures.dense(rows.input_shape, 2)  # one hidden layer of 2n units
    model = Model(
        module,
        input_shape=rows.input_shape,
        classes=rows.classes,
        preprocessing=Preprocessing(tuple(centre.tolist()), tuple(scale.tolist())),
        bounds=None,
    )
    recipe = Recipe.from_json({**RECIPE.to_json(), "epochs": epochs})
    fit(model, members, cross_entropy, recipe, seed=seed)
    knowledge = Knowledge(hold_out, recipe)
    attacks: dict[str, MembershipAttack] = {
        "naive": Naive(),
        "shadow-bb": ShadowClassifier(shadows=min(10, shadows)),
        "bayesian-wb": BayesianWhiteBox(),
        "nn-wb": LearnedWhiteBox(shadows=min(10, shadows), points=1),
        "lira": LiRA(shadows=shadows),
        "rmia": RMIA(shadows=shadows),
        "quantile": Quantile(),
    }
    found = {name: run(model, members, non_members, knowledge, seed=seed) for name, run in attacks.items()}
    return {
        "accuracy": {name: each.balanced_accuracy.value for name, each in found.items()},
        "auc": {name: each.auc.value for name, each in found.items()},
        "train": float((model.predict(members.x) == members.y).double().mean()),
        "test": float((model.predict(non_members.x) == non_members.y).double().mean()),
    }


def trials(size: Size, seed: int) -> Sequence[Trial]:
    """A trial per set and split."""
    return [
        Trial.of(attack, {"dataset": dataset, "epochs": EPOCHS, "shadows": 16}, seed + i)
        for dataset in PAPER
        for i in range(REPEATS[size])
    ]


def report(result: StudyResult) -> PaperTable:
    """Accuracies beside the thesis', the newer attacks' areas, and paired differences over the splits."""
    cells, claims, seed = [], [], result.provenance.seed
    for dataset, printed in PAPER.items():
        found = values(result.records, dataset=dataset)
        for column, number in (*zip(COLUMNS, printed, strict=True), *((name, None) for name in NEWER)):
            cells.append(Cell(dataset, column, mean([value["accuracy"][column] for value in found], seed), number))
        for column in (*COLUMNS, *NEWER):
            cells.append(Cell(dataset, f"AUC {column}", mean([value["auc"][column] for value in found], seed), None))
        for part in ("train", "test"):
            cells.append(Cell(dataset, f"{part} accuracy", mean([value[part] for value in found], seed), None))
        claims += [_paired(dataset, found, seed)] if found else []
    return PaperTable(study=result.study, cells=tuple(cells), provenance=result.provenance, claims=tuple(claims))


def _paired(dataset: str, found: list[dict[str, Any]], seed: int) -> Claim:
    """Whether the better white-box attack beats the better black-box one, split by split."""
    gains = [
        max(value["accuracy"][name] for name in ("bayesian-wb", "nn-wb"))
        - max(value["accuracy"][name] for name in ("naive", "shadow-bb"))
        for value in found
    ]
    gain = mean(gains, seed)
    assert gain is not None
    decided = gain.excludes(0)
    return Claim(
        f"On {dataset}, a white-box attack is at least as accurate as naive and shadow-bb.",
        f"paired difference of the better of each {show_estimate(gain)}.",
        gain.low > 0 if decided else None,
    )


STUDY = declare(
    "study",
    "privacy-table-8.8",
    paper="Leino2022, table 8.8",
    does="membership attacks on real tables, with LiRA, RMIA and quantile regression beside them",
)(PaperStudy(trials, report))
