"""Figures 5 and 6: what ModelGuard costs its users, in detection of strange inputs and in time."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
import torch

from modelkeep.core.method import declare
from modelkeep.core.results import Estimate
from modelkeep.extract.target import Guarded
from modelkeep.papers.curves import Curve, PaperCurves
from modelkeep.papers.result import Claim, values
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.table import Cell, PaperTable
from modelkeep.papers.tang2024.arrangement import DRAWINGS, MNIST, TASKS
from modelkeep.papers.tang2024.defences import build_defence
from modelkeep.papers.tang2024.figures_3_4 import BUDGETS
from modelkeep.papers.tang2024.owner import prepare_owner
from modelkeep.papers.tang2024.paper_figures import DEFENCES, GUARD_S, GUARD_W, MAD, NONE, TOP
from modelkeep.papers.tang2024.plans import make_plan
from modelkeep.study.names import trial
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial

_LOOKS = 12
"""At how many points of the queries the centroids are counted."""


@trial("tang2024/figure-5-growth", formerly=("modelkeep.extract.studies.quantising:grow",))
def grow(*, seed: int, task: str, plan: dict[str, Any], epsilon: float) -> dict[str, Any]:
    """How many centroids ModelGuard-S has after more and more of the thief's queries."""
    mine = prepare_owner(task, plan, seed)
    guarded, asked = Guarded(mine.target, build_defence("ModelGuard-S", epsilon, mine)), mine.asked
    queries, centroids = [0], [0]
    for part in asked.tensor_split(_LOOKS):
        guarded.probs(part)
        queries.append(queries[-1] + len(part))
        centroids.append(sum(guarded.state.length(label) for label in range(len(mine.target.classes))))
    return {"queries": queries, "centroids": centroids}


@trial("tang2024/figure-5-detection", formerly=("modelkeep.extract.studies.quantising:detect",))
def detect(*, seed: int, task: str, plan: dict[str, Any], defence: str, epsilon: float) -> dict[str, float]:
    """The AUROC of the top confidence as a sign of data that the target knows, after the thief has asked (figure 5)."""
    mine = prepare_owner(task, plan, seed)
    guarded = Guarded(mine.target, build_defence(defence, epsilon, mine))
    guarded.probs(mine.asked)
    known, unknown = (guarded.probs(data.x).amax(dim=1) for data in (mine.data.test, mine.data.unknown))
    return {"auroc": auroc(known, unknown), "n": len(known) + len(unknown)}


def auroc(positive: torch.Tensor, negative: torch.Tensor) -> float:
    """The share of pairs that are in the right order, ties counted half (the Mann–Whitney statistic).

    >>> auroc(torch.tensor([0.9, 0.5]), torch.tensor([0.5, 0.1]))
    0.875
    """
    from scipy.stats import rankdata

    ranks = rankdata(np.concatenate([positive.numpy(), negative.numpy()]))
    n, m = len(positive), len(negative)
    return float((ranks[:n].sum() - n * (n + 1) / 2) / (n * m))


_REPEATED = 200


@trial("tang2024/figure-6", formerly=("modelkeep.extract.studies.timing:respond",))
def respond(*, seed: int, task: str, plan: dict[str, Any], defence: str, epsilon: float = 1.0) -> dict[str, Any]:
    """The median milliseconds of single queries, and what the defence adds to the same query without one.

    The two are asked in turn, so that whatever else the machine does meets both. The thief has asked all of his
    questions before: the state of a defence is as large as it gets in this study.
    """
    mine = prepare_owner(task, plan, seed)
    guarded, bare = (Guarded(mine.target, build_defence(name, epsilon, mine)) for name in (defence, NONE))
    guarded.probs(mine.asked if guarded.state is not None else mine.asked[:8])  # also compiles what is compiled
    taken, added = [], []
    for x in torch.split(mine.data.test.x[:_REPEATED], 1):
        begun = perf_counter()
        guarded.probs(x)
        between = perf_counter()
        bare.probs(x)
        taken.append(1000 * (between - begun))
        added.append(taken[-1] - 1000 * (perf_counter() - between))
    medians = {
        name: Estimate.bootstrap(each, seed, np.median) for name, each in (("milliseconds", taken), ("added", added))
    }
    return {name: [found.value, found.low, found.high, found.n] for name, found in medians.items()}


_GROWN = 1.5
"""The budget of figure 5's right half."""


def _detection_trials(size: Size, seed: int) -> Sequence[Trial]:
    """One per task and budget, and one per task for the top-1 defence, whose answers all look alike."""
    return [
        Trial.of(
            detect,
            {"task": task, "plan": make_plan(task, size).to_json(), "defence": defence, "epsilon": epsilon},
            seed,
        )
        for task in TASKS
        for defence, epsilon in (*((GUARD_S, epsilon) for epsilon in (0.0, *BUDGETS)), (TOP, 2.0))
    ]


def report_detection(result: StudyResult) -> PaperCurves:
    """Figure 5, left: a curve per target, and the top-1 defence's one point in the claims."""
    budgets = (0.0, *BUDGETS)
    series = {
        task: tuple(_auroc(result, task, GUARD_S, epsilon) for epsilon in budgets)
        for task in dict.fromkeys(record.parameters["task"] for record in result.records)
    }
    tops = [point for task in series if (point := _auroc(result, task, TOP, 2.0)) is not None]
    return PaperCurves(
        study=result.study,
        x_label="ℓ1 budget ε",
        y_label="AUROC of the top confidence",
        x=budgets,
        series=series,
        paper={},
        claims=(
            _at_least(series, budgets, 0.75, 0.8, "Detection stays good (AUROC ≥ 0.8) with ε ≤ 0.75."),
            _at_least(series, budgets, 1.5, 0.7, "It stays acceptable (AUROC ≥ 0.7) until ε = 1.5 in most cases."),
            Claim(
                "The top-1 defence always has an AUROC of 0.5.",
                f"{', '.join(f'{each.value:.3f}' for each in tops)}.",
                all(each.value == 0.5 for each in tops) if tops else None,
            ),
        ),
        provenance=result.provenance,
    )


def _at_least(series: dict[str, Curve], budgets: tuple[float, ...], until: float, least: float, says: str) -> Claim:
    """For how many targets the curve stays up: holds for all, or for most of them where the paper says most.

    A target that cannot tell strange inputs even without a defence (ε = 0) says nothing about one.
    """
    told, kept = [], []
    for task, curve in series.items():
        points = [point for epsilon, point in zip(budgets, curve, strict=True) if epsilon <= until]
        known = [point.value for point in points if point is not None]
        if len(known) < len(points):
            return Claim(says, f"{task}: a trial is missing.", None)
        blind = known[0] < least
        told.append(f"{task} {min(known):.3f}" + (f" (left out: {known[0]:.3f} without a defence)" if blind else ""))
        kept += [] if blind else [min(known) >= least]
    verdict = sum(kept) > len(kept) / 2 if "most" in says else all(kept)
    return Claim(says, f"at least: {', '.join(told)}.", verdict if kept else None)


def _auroc(result: StudyResult, task: str, defence: str, epsilon: float) -> Estimate | None:
    found = values(result.records, task=task, defence=defence, epsilon=epsilon)
    return None if not found else exact(found[0]["auroc"], found[0]["n"])


def _growth_trials(size: Size, seed: int) -> Sequence[Trial]:
    """One per task, and with many classes also one at the budget of the tables."""
    return [
        Trial.of(grow, {"task": task, "plan": make_plan(task, size).to_json(), "epsilon": epsilon}, seed)
        for task, epsilon in (*((task, _GROWN) for task in TASKS), (DRAWINGS, 1.0))
    ]


def report_growth(result: StudyResult) -> PaperCurves:
    """Figure 5, right."""
    found = {
        f"{record.parameters['task']}, ε = {record.parameters['epsilon']:g}": record.value
        for record in result.records
        if record.state == "done"
    }
    queries = tuple(map(float, next(iter(found.values()))["queries"])) if found else (0.0,)
    series: dict[str, Curve] = {
        name: tuple(exact(count, 1) for count in value["centroids"]) for name, value in found.items()
    }
    early = {
        name: value["centroids"][len(queries) // 2] / max(value["centroids"][-1], 1)
        for name, value in found.items()
        if name.endswith(f"{_GROWN:g}")
    }
    return PaperCurves(
        study=result.study,
        x_label="queries",
        y_label="centroids",
        x=queries,
        series=series,
        paper={},
        claims=(
            Claim(
                "At ε = 1.5 the centroids increase slowly after a short warm-up.",
                f"there at half of the queries: {', '.join(f'{name} {share:.0%}' for name, share in early.items())}.",
                all(share >= 0.75 for share in early.values()) if early else None,
            ),
        ),
        provenance=result.provenance,
    )


def response_trials(size: Size, seed: int) -> Sequence[Trial]:
    """One per defence with few and with many classes."""
    return [
        Trial.of(respond, {"task": task, "plan": make_plan(task, size).to_json(), "defence": defence}, seed)
        for task in (MNIST, DRAWINGS)
        for defence in DEFENCES
    ]


def report_times(result: StudyResult) -> PaperTable:
    """Figure 6 as a table: milliseconds per single query, the target's own pass included, and what the defence adds."""
    found = {
        (defence, task): taken[0]
        for defence in DEFENCES
        for task in (MNIST, DRAWINGS)
        if (taken := values(result.records, task=task, defence=defence))
    }
    cells = tuple(
        Cell(
            defence,
            f"{task}, {label}",
            Estimate(*found[defence, task][key]) if (defence, task) in found else None,
            None,
        )
        for task in (MNIST, DRAWINGS)
        for key, label in (("milliseconds", "ms"), ("added", "added"))
        for defence in DEFENCES
    )
    return PaperTable(study=result.study, cells=cells, claims=tuple(_slow(found)), provenance=result.provenance)


def _slow(found: dict[tuple[str, str], Any]) -> list[Claim]:
    """Significant is what adds half of the time without a defence or more."""
    says = {
        MAD: "MAD adds a significant overhead.",
        GUARD_W: "ModelGuard-W adds a significant overhead.",
        GUARD_S: "ModelGuard-S adds only marginally to no defence.",
    }
    claims = []
    for defence, sentence in says.items():
        taken = {task: found[defence, task] for task in (MNIST, DRAWINGS) if (defence, task) in found}
        shares = [each["added"][0] / (each["milliseconds"][0] - each["added"][0]) for each in taken.values()]
        told = "; ".join(
            f"{task} {each['milliseconds'][0]:.2f} ms, of them {each['added'][0]:.2f} added"
            for task, each in taken.items()
        )
        verdict = max(shares, default=0) < 0.5 if defence == GUARD_S else min(shares, default=0) >= 0.5
        both = len(taken) == 2
        claims.append(Claim(sentence, f"{told if both else 'a trial is missing'}.", verdict if both else None))
    return claims


def exact(value: float, n: int) -> Estimate:
    """A number that was counted and not estimated."""
    return Estimate(value, value, value, n)


DETECTION = declare(
    "study",
    "guard-detection",
    paper="Tang2024, figure 5 (left) in kind",
    does="AUROC of the top confidence as a detector of strange inputs against the distortion budget",
    extra="guard",
)(PaperStudy(_detection_trials, report_detection))
GROWTH = declare(
    "study",
    "guard-growth",
    paper="Tang2024, figure 5 (right) in kind",
    does="ModelGuard-S's centroids along the queries",
    extra="guard",
)(PaperStudy(_growth_trials, report_growth))
TIMES = declare(
    "study",
    "guard-times",
    paper="Tang2024, figure 6 in kind",
    does="response time of a single query under each defence",
    extra="guard",
)(PaperStudy(response_trials, report_times))
