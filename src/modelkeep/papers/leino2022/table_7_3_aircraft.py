"""Targeted safe regions as affinity robustness (Leino2022, 7.4.4): the ACAS Xu row of table 7.3.

Around an encounter the advice may change to an adjacent directive, but not further: "left" to "hard left", never
"left" to "hard right". An Affinity GloRo Net whose sets are the pairs of adjacent directives certifies that in one
pass. Ours is trained on the encounters of `airborne.py`, as ACAS Xu's own cannot be had, so the two columns are two
tasks. A GloRo Net for standard robustness beside it shows what the relaxation is worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import torch

from modelkeep.certify.certification import Certify
from modelkeep.certify.gloro import GloRoNet
from modelkeep.certify.guarantees import Affinity, Guarantee, Standard
from modelkeep.certify.objectives import GloRoCrossEntropy
from modelkeep.core.method import declare
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate
from modelkeep.papers.leino2022.aircraft_encounters import ADJACENT, DIRECTIVES, draw_encounters, nearest
from modelkeep.papers.result import Claim, above, values
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.table import Cell, PaperTable
from modelkeep.study.folder import workdir
from modelkeep.study.names import trial
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial
from modelkeep.training import ExponentialAfterHalf, Recipe, fit
from modelkeep.zoo.architectures import dense

RADIUS = 0.01
GUARANTEES: dict[str, Guarantee] = {
    "targeted affinity": Affinity(ADJACENT, classes=DIRECTIVES),
    "standard": Standard(),
}
PAPER = {"VRA": 0.749, "rejection rate": 0.195, "clean accuracy": 0.858}
"""Table 7.3, ACAS Xu; there is no standard GloRo Net in it to compare with."""


@trial("leino2022/table-7.3-aircraft", formerly=("modelkeep.certify.studies.targeted:certified",))
def certify_encounters(*, seed: int, guarantee: str, rows: int, tests: int, hidden: int, epochs: int) -> dict[str, Any]:
    """Train a dense GloRo Net with three hidden layers for the guarantee (table B.1), and count what it certifies."""
    train, test = draw_encounters(rows, seed=2 * seed), draw_encounters(tests, seed=2 * seed + 1)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        module = dense(train.input_shape, len(DIRECTIVES), hidden=[hidden] * 3, activation="minmax")
    model = Model(module, input_shape=train.input_shape, classes=DIRECTIVES, bounds=train.bounds)
    wanted = GUARANTEES[guarantee]
    objective = GloRoCrossEntropy(radius=RADIUS, guarantee=wanted)
    recipe = Recipe(epochs=epochs, batch_size=128, learning_rate=ExponentialAfterHalf(1e-3, 5e-6, unit="epoch"))
    fit(model, train, objective, recipe, seed=seed, checkpoint=workdir() / "training")
    found = Certify(radius=RADIUS, guarantee=wanted)(model, test)
    net = GloRoNet(model, RADIUS, wanted)
    began = perf_counter()
    net.predict(test.x)
    seconds = perf_counter() - began
    shares = {"VRA": found.verified, "rejection rate": found.rejected, "clean accuracy": found.clean}
    return {
        **{name: [round(share.value * share.n), share.n] for name, share in shares.items()},
        "right directive": [int((found.logits.argmax(dim=1) == test.y).sum()), tests],
        "milliseconds for all": 1_000 * seconds,
        "between directives": nearest(train, steps=1),
    }


def trials(size: Size, seed: int) -> Sequence[Trial]:
    """One training per guarantee. The thesis does not say on how many encounters."""
    settings = {
        "small": {"rows": 10_000, "tests": 5_000, "hidden": 128, "epochs": 25},
        "paper": {"rows": 20_000, "tests": 10_000, "hidden": 1_000, "epochs": 100},
    }[size]
    return [Trial.of(certify_encounters, {"guarantee": name, **settings}, seed) for name in GUARANTEES]


def report(result: StudyResult) -> PaperTable:
    """The row of the table, ours beside the thesis'. Intervals are over encounters: they say nothing of trainings."""
    found = {name: next(iter(values(result.records, guarantee=name)), None) for name in GUARANTEES}
    cells = [
        Cell(name, column, None if value is None else Estimate.rate(*value[column]), printed)
        for name, value in found.items()
        for column, paper in (*PAPER.items(), ("right directive", None))
        for printed in [paper if name == "targeted affinity" else None]
    ]
    vra = {cell.row: cell.ours for cell in cells if cell.column == "VRA"}
    return PaperTable(
        study=result.study,
        cells=tuple(cells),
        claims=(
            above(
                "Affinity robustness leads to higher certified accuracy.",
                "VRA for adjacent directives and for one",
                vra["targeted affinity"],
                vra["standard"],
            ),
            *_claims(found["targeted affinity"]),
        ),
        provenance=result.provenance,
    )


def _claims(value: dict[str, Any] | None) -> list[Claim]:
    batch = "An entire batch is certified in a matter of milliseconds."
    apart = "Directives are 2ε = 0.02 apart (about that in the thesis' data)."
    if value is None:
        return [Claim(says, "a trial is missing.", None) for says in (batch, apart)]
    taken, gap = value["milliseconds for all"], value["between directives"]
    return [
        Claim(batch, f"{value['VRA'][1]:,} encounters in {taken:.0f} ms.", taken / value["VRA"][1] < 1),
        Claim(apart, f"the nearest two encounters with different directives are {gap:.3f} apart.", gap >= 2 * RADIUS),
    ]


TARGETED = declare(
    "study",
    "targeted-safe-regions",
    paper="Leino2022, table 7.3 (ACAS Xu) and 7.4.4",
    does="an Affinity GloRo Net that certifies that advice changes to an adjacent directive at most",
)(PaperStudy(trials, report))
