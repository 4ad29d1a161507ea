"""The sweep of section 5.5: depth × width × regularisation × compression, on three data sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

from modelkeep.core.results import Estimate
from modelkeep.papers.paper import Cell, Claim, PaperStudy, PaperTable, Size, above, mean
from modelkeep.papers.saha2020.plasticity.networks import REGULARISATIONS
from modelkeep.papers.saha2020.plasticity.sweep_trials import BITS, SHARES, sweep
from modelkeep.study.ledger import Record
from modelkeep.study.study import StudyResult
from modelkeep.study.trial import Trial

DATASETS = ("mnist", "fashion-mnist", "cifar-10")
STAGES = ("before", "after", *(f"{bits} bits" for bits in BITS), *(f"{100 * share:.0f} % pruned" for share in SHARES))
COLUMNS = tuple(f"{stage}, {images}" for stage, images in product(STAGES, ("clean", "attacked")))

Network = tuple[str, str, int, int]
"""Data set, regularisation, depth, width."""


def trials(size: Size, seed: int) -> Sequence[Trial]:
    """Small: six networks on MNIST, two of them regularised too, and one each on the other sets. Paper: everything."""
    grid: list[Network]
    if size == "small":
        grid = [("mnist", "none", depth, width) for depth, width in product([1, 3], [4, 8, 16])]
        grid += [("mnist", name, 3, 16) for name in REGULARISATIONS[1:]]
        grid += [(dataset, "none", 3, 16) for dataset in DATASETS[1:]]
        settings, runs = {"images": 2_000, "epochs": 5, "cycles": 3, "attacked": 100}, 1
    else:
        grid = list(product(DATASETS, REGULARISATIONS, [1, 2, 3, 4], [4, 8, 16, 32]))
        settings, runs = {"images": 10_000, "epochs": 12, "cycles": 10, "attacked": 500}, 3
    return [
        Trial.of(
            sweep,
            {"dataset": dataset, "regularisation": name, "depth": depth, "width": width, **settings},
            seed + run,
        )
        for dataset, name, depth, width in grid
        for run in range(runs)
    ]


def report(result: StudyResult) -> PaperTable:
    """Each network's accuracies: over examples where it was trained once, over trainings where it was more often."""
    cells = [
        Cell(_name(network), column, _accuracy(records, column, result.provenance.seed), None)
        for network, records in by_network(result.records).items()
        for column in COLUMNS
    ]
    claims = [
        _paired(result, "before, clean", "after, clean", "Adversarial training costs clean accuracy."),
        _paired(result, "after, attacked", "before, attacked", "Adversarial training makes networks more robust."),
        _paired(result, "after, attacked", "8 bits, attacked", "Quantisation to 8 bits costs robustness."),
        _paired(result, "after, attacked", "4 bits, attacked", "Quantisation to 4 bits costs robustness."),
        _paired(result, "after, attacked", "80 % pruned, attacked", "Pruning 80 % of the weights costs robustness."),
    ]
    return PaperTable(
        study=result.study,
        where=SWEEP.where,
        cells=tuple(cells),
        claims=tuple(claims),
        provenance=result.provenance,
    )


def by_network(records: Iterable[Record]) -> dict[Network, list[Record]]:
    """The trials of each network."""
    found: dict[Network, list[Record]] = {}
    for record in records:
        p = record.parameters
        found.setdefault((p["dataset"], p["regularisation"], p["depth"], p["width"]), []).append(record)
    return found


def _name(network: Network) -> str:
    dataset, regularisation, depth, width = network
    return f"{dataset}, {depth} × {width}" + ("" if regularisation == "none" else f", {regularisation}")


def _accuracy(records: list[Record], column: str, seed: int) -> Estimate | None:
    found = [record.value[column] for record in records if record.state == "done"]
    if len(found) == 1:
        return Estimate.rate(*found[0])
    return mean([right / n for right, n in found], seed)


def _paired(result: StudyResult, larger: str, smaller: str, says: str) -> Claim:
    """By the mean difference over all networks."""
    done = [record.value for record in result.records if record.state == "done"]
    if len(done) < 2:
        return Claim(says, f"{len(done)} trials are too few.", None)
    gaps = [value[larger][0] / value[larger][1] - value[smaller][0] / value[smaller][1] for value in done]
    where = f"'{larger}' less '{smaller}' in {len(gaps)} trials, and 0"
    return above(says, where, mean(gaps, result.provenance.seed), Estimate(0.0, 0.0, 0.0, len(gaps)))


SWEEP = PaperStudy(
    name="plasticity-sweep",
    where="thesis 004, section 5.5 (future work)",
    shows="clean and attacked accuracy by depth, width, regularisation, quantisation and pruning, on three data sets",
    trials=trials,
    report=report,
)
