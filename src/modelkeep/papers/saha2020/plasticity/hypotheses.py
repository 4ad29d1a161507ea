"""The hypotheses of section 5.3, asked of what was measured: a fitted Φ(depth, width), and whether it is one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from modelkeep.core.method import declare
from modelkeep.core.results import Estimate
from modelkeep.papers.result import Claim
from modelkeep.papers.saha2020.plasticity import memory, sweep
from modelkeep.papers.saha2020.plasticity.phi import FEWEST, Phi, fit_phi, rank_correlation
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.table import Cell, PaperTable
from modelkeep.study.record import Record
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial

MEMORY_OF = "memory: labels held"
_TERMS = ("constant", "depth", "width", "interaction")


def trials(size: Size, seed: int) -> Sequence[Trial]:
    """Those of the studies of memory and of the sweep; whatever the ledger has of them is not run again."""
    return [*memory.trials(size, seed), *sweep.trials(size, seed)]


def report(result: StudyResult) -> PaperTable:
    """log2 Φ = constant + b · log2 depth + c · log2 width, Φ being the labels held, or the odds to be right."""
    plain = [record for record in result.records if record.parameters["regularisation"] == "none"]
    remembered = [record for record in plain if "dataset" not in record.parameters]
    swept = [record for record in plain if "dataset" in record.parameters]
    seed = result.provenance.seed
    fits = {MEMORY_OF: _fit(remembered, [memory.log2_capacity(r.value) for r in _finished_records(remembered)], seed)}
    datasets = list(dict.fromkeys(record.parameters["dataset"] for record in swept))
    for dataset in datasets:
        of_set = [record for record in swept if record.parameters["dataset"] == dataset]
        for column in ("after, attacked", "after, clean"):
            odds = [_log2_odds(*record.value[column]) for record in _finished_records(of_set)]
            fits[f"{dataset}: odds {column}"] = _fit(of_set, odds, seed)
    cells = [_cell(row, term, fit) for row, fit in fits.items() for term in _TERMS]
    return PaperTable(
        study=result.study,
        cells=tuple(cells),
        claims=(
            *(claim for dataset in datasets for claim in _hypothesis_1(dataset, fits)),
            _separable(fits[MEMORY_OF]),
            _one_measure(remembered, [r for r in swept if r.parameters["dataset"] == sweep.DATASETS[0]], seed),
        ),
        provenance=result.provenance,
    )


def _hypothesis_1(dataset: str, fits: dict[str, Phi | None]) -> list[Claim]:
    deeper = f"Hypothesis 1, {dataset}: deeper networks are more robust after adversarial training, and as accurate."
    must = f"Hypothesis 1, {dataset}: it must be depth, width does not do it."
    robust, clean = fits[f"{dataset}: odds after, attacked"], fits[f"{dataset}: odds after, clean"]
    if robust is None or clean is None:
        few = f"there are fewer than {FEWEST} trials, or not two depths and two widths."
        return [Claim(deeper, few, None), Claim(must, few, None)]
    by_depth = None
    if robust.depth.high < 0 or clean.depth.high < 0:
        by_depth = False
    elif robust.depth.low > 0:
        by_depth = True
    found = f"twice the depth multiplies the odds by 2^{robust.depth} attacked and by 2^{clean.depth} clean."
    wider = f"twice the width multiplies the odds under attack by 2^{robust.width}."
    by_width = False if robust.width.low > 0 else True if robust.width.high < 0 else None
    return [Claim(deeper, found, by_depth), Claim(must, wider, by_width)]


def _separable(fit: Phi | None) -> Claim:
    """By whether anything worth mentioning is left to explain: with enough trials, any interaction is significant."""
    says = "Hypothesis 2 and section 5.5: Φ is a function of depth times a function of width."
    if fit is None:
        return Claim(says, "too few trials of memory.", None)
    found = f"the power law explains {fit.explained:.2f} of the variance; the interaction is {fit.interaction}."
    if fit.explained > 0.95:
        return Claim(says, found, True)
    return Claim(says, found, False if fit.interaction.excludes(0) else None)


def _one_measure(remembered: list[Record], swept: list[Record], seed: int) -> Claim:
    """Whether networks that hold more labels are the more robust ones, of the same depth and width."""
    says = "Hypothesis 2: one number says how well a network learns: who holds more labels is the more robust."
    held = _means(
        {record.identity: memory.log2_capacity(record.value) for record in _finished_records(remembered)}, remembered
    )
    robust = _means({r.identity: _log2_odds(*r.value["after, attacked"]) for r in _finished_records(swept)}, swept)
    both = sorted(held.keys() & robust.keys())
    agreement = rank_correlation([held[key] for key in both], [robust[key] for key in both], seed) if both else None
    if agreement is None:
        return Claim(says, f"{len(both)} networks have both, which is too few.", None)
    holds = True if agreement.low > 0 else False if agreement.high < 0 else None
    return Claim(says, f"the rank correlation is {agreement}.", holds)


def _means(values: dict[str, float], records: list[Record]) -> dict[tuple[int, int], float]:
    """The mean of each depth and width."""
    found: dict[tuple[int, int], list[float]] = {}
    for record in records:
        if record.identity in values:
            p = record.parameters
            found.setdefault((p["depth"], p["width"]), []).append(values[record.identity])
    return {network: fmean(numbers) for network, numbers in found.items()}


def _finished_records(records: list[Record]) -> list[Record]:
    return [record for record in records if record.state == "done"]


def _fit(records: list[Record], log2_phi: list[float], seed: int) -> Phi | None:
    parameters = [record.parameters for record in _finished_records(records)]
    return fit_phi([p["depth"] for p in parameters], [p["width"] for p in parameters], log2_phi, seed)


def _log2_odds(right: int, n: int) -> float:
    """The odds to be right; half an example is added to either side, so that all or none right have finite ones."""
    return math.log2((right + 0.5) / (n - right + 0.5))


def _cell(row: str, term: str, fit: Phi | None) -> Cell:
    found: Estimate | None = None if fit is None else getattr(fit, term)
    return Cell(row, term, found, None, "" if found else "too few trials")


PHI = declare(
    "study",
    "plasticity-phi",
    paper="Saha2020, sections 5.3 and 5.5",
    does="plasticity Φ(depth, width), fitted to memory and to robustness, and a verdict on hypotheses 1 and 2",
)(PaperStudy(trials, report))
