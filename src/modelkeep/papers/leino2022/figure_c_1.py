"""Figure C.1: what membership attacks reach against defended networks, beside what theory lets any attack reach.

The trials are those of table C.2. The thesis draws the accuracy of nn-wb and prints no number of it; here stand the
advantages of naive, loss and RMIA, whose shadows are trained as the target was, private ones included.
"""

from __future__ import annotations

from modelkeep.core.method import declare
from modelkeep.core.results import Estimate
from modelkeep.papers.leino2022.table_c_2 import ROWS, defences, name_of, trials
from modelkeep.papers.result import Claim, mean, values
from modelkeep.papers.study import PaperStudy
from modelkeep.papers.table import Cell, PaperTable
from modelkeep.privacy.private_training import advantage_bounds
from modelkeep.study.study import StudyResult

ATTACKS = ("naive", "loss", "rmia")


def report(result: StudyResult) -> PaperTable:
    """The advantage of each attack, with both bounds in brackets where there are any."""
    cells: list[Cell] = []
    broken: list[str] = []
    measured = 0
    for data, row in ROWS.items():
        for defence in defences():
            found = values(result.records, data=data, defence=defence[0], epsilon=defence[1])
            for attack in ATTACKS:
                reached = [value["advantage"][attack] for value in found if attack in value["advantage"]]
                if not reached and data == "mnist" and attack == "rmia":
                    continue  # no shadows there
                ours = mean(reached, result.provenance.seed)
                delta = found[0]["delta"] if found else None
                cells.append(Cell(f"{row}, {attack}", name_of(defence), ours, None, _bounds(defence[1], delta)))
                if ours is not None and defence[1] is not None and delta is not None:
                    measured += 1
                    tight = advantage_bounds(defence[1], delta)[1]
                    broken += [f"{row}, {attack} at ε = {defence[1]:g}"] if ours.low > tight else []
    return PaperTable(
        study=result.study,
        cells=tuple(cells),
        claims=(_bounded(measured, broken), _regularised(cells)),
        provenance=result.provenance,
    )


def _bounds(epsilon: float | None, delta: float | None) -> str:
    if epsilon is None or delta is None:
        return ""
    loose, tight = advantage_bounds(epsilon, delta)
    return f"at most {tight:.3f}; e^ε − 1 is {f'{loose:.3f}' if loose < 1 else 'vacuous'}"


def _bounded(measured: int, broken: list[str]) -> Claim:
    says = "A practical adversary is unlikely to achieve performance that is tight with the theoretical bound."
    if not measured:
        return Claim(says, "no trial is done.", None)
    found = f"{len(broken)} of {measured} advantages lie above the bound{': ' + ', '.join(broken) if broken else ''}."
    return Claim(says, found, not broken)


def _regularised(cells: list[Cell]) -> Claim:
    """On the set that leaks most: how dropout compares with no defence."""
    says = "Dropout does not significantly impact the accuracy of the attack in most cases."
    ours: dict[tuple[str, str], Estimate | None] = {(cell.row, cell.column): cell.ours for cell in cells}
    apart, compared = [], 0
    for row in dict.fromkeys(cell.row for cell in cells if not cell.row.endswith("naive")):
        plain, dropped = ours.get((row, "no defence")), ours.get((row, "dropout"))
        if plain is not None and dropped is not None:
            compared += 1
            apart += [row] if dropped.high < plain.low else []
    if not compared:
        return Claim(says, "no trial is done.", None)
    found = f"it lowers the advantage in {len(apart)} of {compared} cases{': ' + ', '.join(apart) if apart else ''}."
    return Claim(says, found, 2 * len(apart) < compared)


_PRIVATE_ADVANTAGE = declare(
    "study",
    "private-advantage",
    paper="Leino2022, figure C.1",
    extra="private",
    does="what membership attacks reach against those networks, beside the bounds of differential privacy",
)(PaperStudy(trials, report))
