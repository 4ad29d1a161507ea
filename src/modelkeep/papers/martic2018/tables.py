"""What the reports of the supervised findings share: cells beside the paper's, and comparisons over all parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from modelkeep.completion.hardness import ALPHAS, Hardness, Retraining, measure_hardness
from modelkeep.core.results import Estimate
from modelkeep.papers.martic2018.paper_figures import Table
from modelkeep.papers.martic2018.settings import SEEDS
from modelkeep.papers.martic2018.supervised_trials import retrainings
from modelkeep.papers.result import Claim, mean
from modelkeep.papers.table import Cell, PaperTable
from modelkeep.report.completion import completion_page
from modelkeep.report.page import write_files
from modelkeep.study.record import Record
from modelkeep.study.study import StudyResult

LAST: Mapping[str, str] = {"S3 B1": "S4 B1", "S3 B1 -W": "S4 B1 -W"}
"""Our small ResNet has three sections: its last one stands beside ResNet50's last, the fourth."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CompletionTable(PaperTable, kind="completion-table"):
    """Ours beside the paper's, and all that was measured of each network or agent: appendix C's rows and the bars."""

    hardness: dict[str, Hardness]

    def pages(self, folder: Path) -> tuple[Path, ...]:
        """A page for each network or agent, such as alexnet.html."""
        pages = {
            f"{name.lower().replace(' ', '-')}.html": completion_page(found, subject=name).render()
            for name, found in self.hardness.items()
        }
        return write_files(folder, pages)


def report_study(
    result: StudyResult,
    rows: Iterable[Cell],
    claims: Iterable[Claim],
    found: Mapping[str, Hardness | None],
) -> CompletionTable:
    """The report on a study; what is not measured yet has no page."""
    return CompletionTable(
        study=result.study,
        cells=tuple(rows),
        claims=tuple(claims),
        hardness={name: each for name, each in found.items() if each is not None},
        provenance=result.provenance,
    )


def measure_network(
    records: Iterable[Record], network: str, counts: Callable[[Retraining], bool] = lambda each: True
) -> Hardness | None:
    """The hardness of a network's parts, by the retrainings that count; None where none is done.

    A seed's hardness is the mean over the data sets, so that runs which are not done on all of them yet wait.
    """
    found = [each for each in retrainings(records, network) if counts(each)]
    known: dict[tuple[str, str, int], set[str]] = {}
    for each in found:
        known.setdefault(_run(each), set()).add(each.setting)
    complete = [each for each in found if known[_run(each)] == set.union(*known.values())]
    return measure_hardness(complete) if complete else None


def _run(each: Retraining) -> tuple[str, str, int]:
    return each.part, each.procedure, each.seed


def cells(
    network: str, found: Hardness | None, paper: Table, beside: Mapping[str, str] | None = None
) -> tuple[Cell, ...]:
    """A row per part and procedure and a column per α; `beside` names the paper's part where it is called otherwise."""
    if found is None:
        return (Cell(network, "α = 1", None, None),)
    # ResNet50 itself has four sections: its third is the paper's third.
    names = {ours: theirs for ours, theirs in (beside or {}).items() if theirs not in found.parts}
    return tuple(
        Cell(
            row=f"{network}: {cell.part}, {cell.procedure}",
            column=f"α = {cell.alpha:g}",
            ours=cell.mean,
            paper=_paper_mean(paper, names.get(cell.part, cell.part), cell.procedure, cell.alpha),
            note=f"{cell.censored} of {cell.runs} never got there" if cell.censored else "",
        )
        for cell in sorted(found.cells, key=lambda cell: found.parts.index(cell.part))
    )


def strongest(network: str, found: Hardness | None) -> tuple[Cell, ...]:
    """Equation 1's infimum for each part, with the name of the procedure that reached it."""
    if found is None:
        return ()
    bounds = [found.bound(part, alpha) for part in found.parts for alpha in found.alphas]
    return tuple(
        Cell(f"{network}: {bound.part}, strongest", f"α = {bound.alpha:g}", bound.hardness, None, bound.procedure)
        for bound in bounds
    )


def _paper_mean(paper: Table, part: str, procedure: str, alpha: float) -> float | None:
    found = paper.get((part, procedure, alpha))
    return None if found is None else found.mean


def over_parts(found: Hardness | None, procedure: str, alpha: float, parts: Sequence[str] = ()) -> Estimate | None:
    """The mean hardness over parts (all, unless named), with its interval over the seeds; None until all are done."""
    if found is None:
        return None
    chosen = [
        cell.values
        for cell in found.cells
        if (cell.procedure, cell.alpha) == (procedure, alpha) and (not parts or cell.part in parts)
    ]
    if {len(each) for each in chosen} != {SEEDS}:
        return None
    return mean([float(np.mean(each)) for each in zip(*chosen, strict=True)], 0)


def at_each(alphas: Sequence[float], says: str, compared: Callable[[float], Claim]) -> Claim:
    """One claim of one per α: it holds where all do, and not where one does not."""
    claims = [compared(alpha) for alpha in alphas]
    told = " ".join(f"α = {alpha:g}: {claim.found}" for alpha, claim in zip(alphas, claims, strict=True))
    verdicts = {claim.holds for claim in claims}
    return Claim(says, told, True if verdicts == {True} else False if False in verdicts else None)


def fewest_steps(says: str, found: Hardness | None, one: str, others: Sequence[str]) -> Claim:
    """Whether a procedure has the least mean of all in most cuts: parts and α where one of the others was tried too."""
    if found is None:
        return Claim(says, "a trial is missing.", None)
    wins, cuts, clear = 0, 0, 0
    for part in found.parts:
        for alpha in ALPHAS:
            at = {cell.procedure: cell.mean for cell in found.of(part, alpha) if len(cell.values) == SEEDS}
            rivals = [at[name] for name in others if name in at]
            if one not in at or not rivals:
                continue
            cuts += 1
            wins += at[one].value <= min(rival.value for rival in rivals)
            clear += any(rival.high < at[one].low for rival in rivals)
    if not cuts:
        return Claim(says, "a trial is missing.", None)
    told = f"it has the least mean in {wins} of {cuts} cuts; another is clearly faster in {clear}."
    return Claim(says, told, True if wins > cuts / 2 else False if clear >= cuts / 2 else None)
