"""The sweep of section 5.5: depth × width × regularisation × compression, on three data sets.

One cell of the sweep: a network of some depth, width and regularisation, hardened, then compressed (section 5.5).

The attacker is that of table 5.1, and each number is counted on test images.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

from modelkeep.attack import PGD
from modelkeep.core.data import Data
from modelkeep.core.method import declare
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball
from modelkeep.core.results import Estimate
from modelkeep.papers.result import Claim, above, mean
from modelkeep.papers.saha2020.plasticity.compression import prune, quantise
from modelkeep.papers.saha2020.plasticity.networks import REGULARISATIONS, WEIGHT_DECAY, CarriedOn, build_network, clean
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.table import Cell, PaperTable
from modelkeep.study.folder import workdir
from modelkeep.study.names import trial
from modelkeep.study.record import Record
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial
from modelkeep.training import Adam, Recipe, evaluate, fit
from modelkeep.zoo import datasets

RADIUS = 8.0
BITS = (8, 4)
SHARES = (0.5, 0.8, 0.9)

Counts = dict[str, list[int]]
"""How many of how many, by what was done to the network and whether the images were clean or attacked."""


@trial("saha2020/sweep", formerly=("modelkeep.harden.studies.plasticity.sweeping:sweep",))
def sweep(
    *,
    seed: int,
    dataset: str,
    depth: int,
    width: int,
    regularisation: str,
    images: int,
    epochs: int,
    cycles: int,
    attacked: int,
) -> Counts:
    """Train on `images` for `epochs`, then on adversarial examples for `cycles`, and count at each stage."""
    train, test = datasets.load(dataset, "train").first(images), datasets.load(dataset, "test")
    return _sweep_on(train, test, seed, depth, width, regularisation, epochs, cycles, attacked)


def _sweep_on(
    train: Data,
    test: Data,
    seed: int,
    depth: int,
    width: int,
    regularisation: str,
    epochs: int,
    cycles: int,
    attacked: int,
) -> Counts:
    """The same on any data. An epoch on adversarial examples gives each 10 iterations more."""
    model = build_network(train, depth, width, seed, dropout=0.5 if regularisation == "dropout" else 0.0)
    optimizer = Adam(weight_decay=WEIGHT_DECAY if regularisation == "weight decay" else 0.0)
    first, second = (Recipe(epochs=n, batch_size=64, optimizer=optimizer) for n in (epochs, cycles))
    fit(model, train, clean, first, seed=seed, checkpoint=workdir() / "clean")
    found = _count(model, test, attacked, seed, "before")
    objective = CarriedOn(Ball("l1", RADIUS, train.bounds), steps=10, step_size=RADIUS / 4)
    fit(model, train, objective, second, seed=seed + 1, checkpoint=workdir() / "adversarial", checkpoint_seconds=300)
    found |= _count(model, test, attacked, seed, "after")
    for bits in BITS:
        found |= _count(quantise(model, bits), test, attacked, seed, f"{bits} bits")
    for share in SHARES:
        found |= _count(prune(model, share), test, attacked, seed, f"{100 * share:.0f} % pruned")
    return found


def _count(model: Model, test: Data, attacked: int, seed: int, stage: str) -> Counts:
    """How many of all are right, and how many of the first `attacked` still are after 40 iterations of PGD."""
    right = evaluate(model, test)[1]
    robust = PGD(norm="l1", radius=RADIUS, steps=40)(model, test.first(attacked), seed=seed).robust_accuracy
    return {
        f"{stage}, clean": [round(right.value * right.n), right.n],
        f"{stage}, attacked": [round(robust.value * robust.n), robust.n],
    }


DATASETS = ("mnist", "fashion-mnist", "cifar-10")
_STAGES = ("before", "after", *(f"{bits} bits" for bits in BITS), *(f"{100 * share:.0f} % pruned" for share in SHARES))
COLUMNS = tuple(f"{stage}, {images}" for stage, images in product(_STAGES, ("clean", "attacked")))

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
        _compare_pairs(result, "before, clean", "after, clean", "Adversarial training costs clean accuracy."),
        _compare_pairs(
            result, "after, attacked", "before, attacked", "Adversarial training makes networks more robust."
        ),
        _compare_pairs(result, "after, attacked", "8 bits, attacked", "Quantisation to 8 bits costs robustness."),
        _compare_pairs(result, "after, attacked", "4 bits, attacked", "Quantisation to 4 bits costs robustness."),
        _compare_pairs(
            result, "after, attacked", "80 % pruned, attacked", "Pruning 80 % of the weights costs robustness."
        ),
    ]
    return PaperTable(
        study=result.study,
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


def _compare_pairs(result: StudyResult, larger: str, smaller: str, says: str) -> Claim:
    """By the mean difference over all networks."""
    done = [record.value for record in result.records if record.state == "done"]
    if len(done) < 2:
        return Claim(says, f"{len(done)} trials are too few.", None)
    gaps = [value[larger][0] / value[larger][1] - value[smaller][0] / value[smaller][1] for value in done]
    where = f"'{larger}' less '{smaller}' in {len(gaps)} trials, and 0"
    return above(says, where, mean(gaps, result.provenance.seed), Estimate(0.0, 0.0, 0.0, len(gaps)))


SWEEP = declare(
    "study",
    "plasticity-sweep",
    paper="Saha2020, section 5.5 (future work)",
    does="clean and attacked accuracy by depth, width, regularisation, quantisation and pruning, on three data sets",
)(PaperStudy(trials, report))
