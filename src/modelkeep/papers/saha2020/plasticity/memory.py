"""The study of memory capacity: random labels that networks of each depth, width and regularisation can hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from modelkeep.core.results import Estimate
from modelkeep.papers.paper import Cell, Claim, PaperStudy, PaperTable, Size, above, mean
from modelkeep.papers.saha2020.plasticity.memory_trials import memorise
from modelkeep.papers.saha2020.plasticity.networks import REGULARISATIONS
from modelkeep.papers.saha2020.plasticity.phi import FEWEST
from modelkeep.study.ledger import Record
from modelkeep.study.study import StudyResult
from modelkeep.study.trial import Trial


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
        where=MEMORY.where,
        cells=tuple(cells),
        claims=tuple(_regularised(result, name) for name in REGULARISATIONS[1:]),
        provenance=result.provenance,
    )


def by_network(records: Iterable[Record]) -> dict[tuple[str, int, int], list[Record]]:
    """The trials of each regularisation, depth and width."""
    found: dict[tuple[str, int, int], list[Record]] = {}
    for record in records:
        p = record.parameters
        found.setdefault((p["regularisation"], p["depth"], p["width"]), []).append(record)
    return found


def _regularised(result: StudyResult, name: str) -> Claim:
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


MEMORY = PaperStudy(
    name="plasticity-memory",
    where="thesis 004, section 5.5 (future work)",
    shows="how many random labels a network can hold, by depth, width and regularisation",
    trials=trials,
    report=report,
)
