"""The study of memory capacity: random labels that networks of each depth, width and regularisation can hold.

How many random labels a network can hold: teach it more and more of them until it fails (section 5.5).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import torch

from modelkeep.core.data import Data
from modelkeep.core.method import declare
from modelkeep.core.results import Estimate
from modelkeep.papers.result import Claim, above, mean
from modelkeep.papers.saha2020.plasticity.networks import REGULARISATIONS, WEIGHT_DECAY, build_network
from modelkeep.papers.saha2020.plasticity.phi import FEWEST
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.table import Cell, PaperTable
from modelkeep.study.names import trial
from modelkeep.study.record import Record
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial
from modelkeep.training import Adam, EarlyStop, Recipe, cross_entropy, fit

HELD = 0.99
"""A set is held when this share of its labels is right."""
CLOSE = 1.1
"""The search ends when what failed is at most this many times what was held."""


def find_capacity(holds: Callable[[int], bool], start: int) -> tuple[int, int]:
    """The most examples that were held, and the fewest above it that were not: doubled or halved, then bisected.

    As if a network that holds n holds fewer too. Nothing held at all is `(0, 1)`.

    >>> find_capacity(lambda n: n <= 70, start=16)
    (68, 72)
    """
    held, failed = 0, start
    while holds(failed):
        held, failed = failed, 2 * failed
    while held == 0 and failed > 1:  # only where the first one failed
        if holds(failed // 2):
            held = failed // 2
        else:
            failed //= 2
    while held and failed > max(CLOSE * held, held + 1):
        middle = (held + failed) // 2
        held, failed = (middle, failed) if holds(middle) else (held, middle)
    return held, failed


@trial("saha2020/memory", formerly=("modelkeep.harden.studies.plasticity.memorising:memorise",))
def memorise(
    *, seed: int, depth: int, width: int, regularisation: str, side: int, hidden: int, steps: int
) -> dict[str, Any]:
    """How many images of noise (`side` × `side`) with random labels, one of two, the network can be taught.

    A probe ends after `steps`, or when it has not become better for 500.
    """
    probes: list[tuple[int, float]] = []

    def holds(n: int) -> bool:
        drawn = torch.Generator().manual_seed(1000 * seed + n)
        x, y = torch.randn(n, 1, side, side, generator=drawn), torch.randint(2, (n,), generator=drawn)
        probes.append(
            (n, best_accuracy(Data(x, y, ("0", "1"), "noise"), seed, depth, width, regularisation, hidden, steps))
        )
        return probes[-1][1] >= HELD

    held, failed = find_capacity(holds, start=64)
    return {"held": held, "failed": failed, "probes": probes}


def best_accuracy(data: Data, seed: int, depth: int, width: int, regularisation: str, hidden: int, steps: int) -> float:
    """The best accuracy on its own training data."""
    model = build_network(data, depth, width, seed, dropout=0.5 if regularisation == "dropout" else 0.0, hidden=hidden)
    decay = WEIGHT_DECAY if regularisation == "weight decay" else 0.0
    recipe = Recipe(
        steps=steps,
        batch_size=256,
        optimizer=Adam(weight_decay=decay),
        learning_rate=3e-3,
        evaluate_every=100,
        early_stop=EarlyStop(5, "accuracy"),
    )
    fitted = fit(model, data, cross_entropy, recipe, seed=seed, held_out=data)
    best = fitted.history[fitted.best].accuracy
    assert best is not None, "there are held-out data"
    return best.value


def trials(size: Size, seed: int) -> Sequence[Trial]:
    """Small: each depth and width once, and one network regularised. Paper: everything, five times."""
    if size == "small":
        grid = [(depth, width, "none") for depth, width in product([1, 2, 3], [4, 8, 16])]
        grid += [(2, 8, regularisation) for regularisation in REGULARISATIONS[1:]]
        settings, runs = {"side": 8, "hidden": 4, "steps": 1_000}, 1
    else:
        grid = list(product([1, 2, 3, 4, 5], [4, 8, 16, 32], REGULARISATIONS))
        settings, runs = {"side": 16, "hidden": 16, "steps": 20_000}, 5
    return [
        Trial.of(memorise, {"depth": depth, "width": width, "regularisation": name, **settings}, seed + run)
        for depth, width, name in grid
        for run in range(runs)
    ]


def log2_capacity(value: dict[str, Any]) -> float:
    """The middle, on a scale of factors, between what was held and what was not."""
    return math.log2(math.sqrt(max(value["held"], 1) * value["failed"]))


def report(result: StudyResult) -> PaperTable:
    """The mean capacity of each network, in labels."""
    cells = []
    for (regularisation, depth, width), records in sorted(by_network(result.records).items()):
        found = [2 ** log2_capacity(record.value) for record in records if record.state == "done"]
        row = f"depth {depth}" + ("" if regularisation == "none" else f", {regularisation}")
        cells.append(Cell(row, f"width {width}", mean(found, result.provenance.seed), None))
    return PaperTable(
        study=result.study,
        cells=tuple(cells),
        claims=tuple(_compare_regularisation(result, name) for name in REGULARISATIONS[1:]),
        provenance=result.provenance,
    )


def by_network(records: Iterable[Record]) -> dict[tuple[str, int, int], list[Record]]:
    """The trials of each regularisation, depth and width."""
    found: dict[tuple[str, int, int], list[Record]] = {}
    for record in records:
        p = record.parameters
        found.setdefault((p["regularisation"], p["depth"], p["width"]), []).append(record)
    return found


def _compare_regularisation(result: StudyResult, name: str) -> Claim:
    """The ratio of capacities with and without, of the same network with the same seed, against 1."""
    log2 = {
        (p["regularisation"], p["depth"], p["width"], record.seed): log2_capacity(record.value)
        for record in result.records
        if record.state == "done" and (p := record.parameters)
    }
    ratios = [
        2 ** (value - log2["none", *network])
        for (regularisation, *network), value in log2.items()
        if regularisation == name and ("none", *network) in log2
    ]
    says = f"Regularisation reduces plasticity: {name}."
    if len(ratios) < FEWEST:
        return Claim(says, f"{len(ratios)} pairs of trials with and without it are too few.", None)
    one = Estimate(1.0, 1.0, 1.0, len(ratios))
    return above(says, "1 and the capacity with it over that without", one, mean(ratios, result.provenance.seed))


MEMORY = declare(
    "study",
    "plasticity-memory",
    paper="Saha2020, section 5.5 (future work)",
    does="how many random labels a network can hold, by depth, width and regularisation",
)(PaperStudy(trials, report))
