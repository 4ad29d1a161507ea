"""Figures 3 and 4: extraction accuracy against the distortion budget, and against ModelGuard-S's centroids."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from modelkeep.core.method import declare
from modelkeep.core.results import Estimate
from modelkeep.papers.curves import Curve, PaperCurves
from modelkeep.papers.result import Claim, values
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.tang2024.arrangement import MNIST
from modelkeep.papers.tang2024.paper_figures import GUARD_S, GUARD_W, KNOCKOFF, MAD, NAIVE, PBAYES, REVSIG
from modelkeep.papers.tang2024.plans import make_plan
from modelkeep.papers.tang2024.tables_2_to_5 import protect, steal
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial

BUDGETS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
DEFENCES = (REVSIG, MAD, GUARD_W, GUARD_S)
ATTACKS = (NAIVE, PBAYES)


def _theft(size: Size, seed: int, attack: str, defence: str, epsilon: float) -> Trial:
    shared = {"task": MNIST, "plan": make_plan(MNIST, size).to_json(), "strategy": KNOCKOFF}
    return Trial.of(steal, {**shared, "attack": attack, "defence": defence, "epsilon": epsilon}, seed)


def sweep_trials(size: Size, seed: int) -> Sequence[Trial]:
    """One per attack, defence and budget."""
    return [
        _theft(size, seed, attack, defence, epsilon)
        for attack in ATTACKS
        for defence in DEFENCES
        for epsilon in BUDGETS
    ]


def report_sweep(result: StudyResult) -> PaperCurves:
    """A curve per attack and defence."""
    curves = {
        (attack, defence): tuple(_accuracy(result, attack, defence, epsilon) for epsilon in BUDGETS)
        for attack in ATTACKS
        for defence in DEFENCES
    }
    return PaperCurves(
        study=result.study,
        x_label="ℓ1 budget ε",
        y_label="extraction accuracy",
        x=BUDGETS,
        series={f"{attack}: {defence}": curve for (attack, defence), curve in curves.items()},
        paper={},
        claims=(
            _lowest(curves, NAIVE, GUARD_W, "Against the naive attack ModelGuard-W leaves the least in most cases."),
            _lowest(curves, PBAYES, GUARD_S, "Against pBayes ModelGuard-S leaves the least at every budget."),
        ),
        provenance=result.provenance,
    )


def _lowest(curves: dict[tuple[str, str], Curve], attack: str, defence: str, says: str) -> Claim:
    """Whether a defence has the lowest accuracy: at how many budgets, and where another is lower beyond chance."""
    lowest, beaten = [], []
    for at, epsilon in enumerate(BUDGETS):
        points = {name: curves[attack, name][at] for name in DEFENCES}
        ours, others = points.pop(defence), [point for point in points.values() if point is not None]
        if ours is None or len(others) < len(points):
            return Claim(says, f"ε = {epsilon:g}: a trial is missing.", None)
        if ours.value <= min(other.value for other in others):
            lowest.append(epsilon)
        if any(other.high < ours.low for other in others):
            beaten.append(epsilon)
    told = f"lowest at {len(lowest)} of {len(BUDGETS)} budgets"
    told += f"; another is clearly lower at ε = {', '.join(f'{e:g}' for e in beaten)}." if beaten else "."
    needed = len(BUDGETS) if "every" in says else len(BUDGETS) / 2 + 1
    return Claim(says, told, True if len(lowest) >= needed else False if len(BUDGETS) - len(beaten) < needed else None)


def _accuracy(result: StudyResult, attack: str, defence: str, epsilon: float) -> Estimate | None:
    found = values(result.records, attack=attack, defence=defence, epsilon=epsilon)
    return Estimate.rate(*found[0]["accuracy"]) if found else None


def quantisation_trials(size: Size, seed: int) -> Sequence[Trial]:
    """Per budget the theft of `sweep_trials`, which is not run again, and how many answers there were."""
    shared = {"task": MNIST, "plan": make_plan(MNIST, size).to_json(), "defence": GUARD_S}
    return [
        *(_theft(size, seed, PBAYES, GUARD_S, epsilon) for epsilon in BUDGETS),
        *(Trial.of(protect, {**shared, "epsilon": epsilon}, seed) for epsilon in BUDGETS),
    ]


def report_quantisation(result: StudyResult) -> PaperCurves:
    """Both of figure 4's curves over the number of different answers, which are the centroids."""
    bare = [record for record in result.records if "attack" not in record.parameters]
    points: list[tuple[int, Estimate | None, Estimate | None]] = []
    for epsilon in BUDGETS:
        counted = values(bare, epsilon=epsilon)
        stolen = values(result.records, attack=PBAYES, epsilon=epsilon)
        if counted:
            apart = Estimate(*stolen[0]["distance"]) if stolen else None
            points.append((counted[0]["different answers"], _accuracy(result, PBAYES, GUARD_S, epsilon), apart))
    points.sort(key=lambda point: point[0])
    accuracy, distance = tuple(point[1] for point in points), tuple(point[2] for point in points)
    return PaperCurves(
        study=result.study,
        x_label="centroids",
        y_label="extraction accuracy, recovery distance",
        x=tuple(float(point[0]) for point in points),
        series={"extraction accuracy": accuracy, "mean recovery distance": distance},
        paper={},
        claims=(
            _monotone(accuracy, 1, "With more centroids the extraction accuracy increases."),
            _monotone(distance, -1, "With more centroids the recovery distance decreases."),
        ),
        log_x=True,
        provenance=result.provenance,
    )


def _monotone(curve: Curve, sign: int, says: str) -> Claim:
    """Holds where the ends are apart in the right order and no step goes the other way beyond chance."""
    known = [point for point in curve if point is not None]
    if len(known) < len(curve) or len(known) < 2:
        return Claim(says, "a trial is missing.", None)
    rising = known if sign > 0 else known[::-1]
    against = sum(a.low > b.high for a, b in pairwise(rising))
    first, last = rising[0], rising[-1]
    told = f"{known[0].value:.3f} to {known[-1].value:.3f}; {against} of {len(known) - 1} steps go the other way."
    return Claim(
        says, told, True if first.high < last.low and not against else False if first.low > last.high else None
    )


FIGURE_3 = declare(
    "study",
    "guard-budgets",
    paper="Tang2024, figure 3 in kind, MNIST",
    does="extraction accuracy of the naive and the pBayes attack against the distortion budget",
    extra="guard",
)(PaperStudy(sweep_trials, report_sweep))
FIGURE_4 = declare(
    "study",
    "guard-centroids",
    paper="Tang2024, figure 4 in kind, MNIST",
    does="extraction accuracy and recovery distance of pBayes against ModelGuard-S's centroids",
    extra="guard",
)(PaperStudy(quantisation_trials, report_quantisation))
