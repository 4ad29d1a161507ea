"""Table 5.1 and figure 5.2: a shallow and a deep CNN on MNIST, trained, then trained on adversarial examples. How
the thesis is read where it leaves something open, `hardening.py` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from modelkeep.core.results import Estimate
from modelkeep.papers.paper import Cell, Claim, Curve, PaperCurves, PaperStudy, PaperTable, Size, above, values
from modelkeep.papers.saha2020.plasticity.table_5_1_trials import harden
from modelkeep.study.study import StudyResult
from modelkeep.study.trial import Trial

DEPTHS = {"shallow model": 2, "deep model": 3}

PAPER: dict[str, tuple[float | None, float | None]] = {
    "train accuracy": (0.9950, 0.9870),
    "test accuracy": (0.9880, 0.9836),
    "adversary's success": (0.56, None),
    "adversary's success, ℓ∞ of 8/255": (None, None),
    "after: train accuracy, on the adversarial data": (0.8867, 0.9405),
    "after: train accuracy, on clean data": (None, None),
    "after: test accuracy": (0.9491, 0.9733),
    "after: adversary's success": (0.12, None),
    "after: adversary's success, ℓ∞ of 8/255": (None, None),
}
"""Table 5.1, and the text of 5.4, which names the adversary's success for the simple model only."""


def trials(size: Size, seed: int) -> Sequence[Trial]:
    """One training per network, the deep one first, as it takes longer."""
    settings = {
        "small": {"images": 6_000, "epochs": 12, "cycles": 5, "iterations": 50, "attacked": 200},
        "paper": {"images": 60_000, "epochs": 12, "cycles": 20, "iterations": 200, "attacked": 1_000},
    }[size]
    return [Trial.of(harden, {"depth": depth, **settings}, seed) for depth in sorted(DEPTHS.values(), reverse=True)]


def report(result: StudyResult) -> PaperTable:
    """The table, ours beside the thesis'. Intervals are over examples: one training says nothing about the next."""
    found = {name: values(result.records, depth=depth) for name, depth in DEPTHS.items()}
    cells = {
        (row, name): Cell(row, name, Estimate.rate(*found[name][0][row]) if found[name] else None, paper)
        for row, printed in PAPER.items()
        for name, paper in zip(DEPTHS, printed, strict=True)
    }
    return PaperTable(
        study=result.study,
        where=PLASTICITY.where,
        cells=tuple(cells.values()),
        claims=tuple(_claims({place: cell.ours for place, cell in cells.items()})),
        provenance=result.provenance,
    )


def _claims(ours: dict[tuple[str, str], Estimate | None]) -> list[Claim]:
    shallow, deep = DEPTHS
    before, after = "adversary's success", "after: adversary's success"
    return [
        above(
            "Adversarial training makes the simple model more robust.",
            "the adversary's success before and after",
            ours[before, shallow],
            ours[after, shallow],
        ),
        above(
            "Its accuracy on clean data is adversely affected.",
            "test accuracy before and after",
            ours["test accuracy", shallow],
            ours["after: test accuracy", shallow],
        ),
        above(
            "Of the deeper model, accuracy on clean images is better (hypothesis 1).",
            "test accuracy after, deep and shallow",
            ours["after: test accuracy", deep],
            ours["after: test accuracy", shallow],
        ),
        above(
            "The deeper model is the more robust one (hypothesis 1).",
            "the adversary's success after, shallow and deep",
            ours[after, shallow],
            ours[after, deep],
        ),
    ]


def figure(result: StudyResult) -> PaperCurves:
    """Both phases by epoch: accuracy on what was trained on, which is adversarial in the second, and on clean tests."""
    found = {name: values(result.records, depth=depth) for name, depth in DEPTHS.items()}
    epochs = max((len(value[0]["history"]) for value in found.values() if value), default=0)
    series: dict[str, Curve] = {}
    for name, value in found.items():
        for curve, label in (("trained on", "as trained on"), ("test", "clean test")):
            rows = value[0]["history"] if value else [None] * epochs
            series[f"{name}, {label}"] = tuple(row and Estimate.rate(*row[curve]) for row in rows)
    return PaperCurves(
        study=result.study,
        where=FIGURE_5_2.where,
        x_label="epoch",
        y_label="accuracy",
        x=tuple(float(epoch) for epoch in range(1, epochs + 1)),
        series=series,
        paper={},  # the thesis has a picture only
        claims=(_throughout(found),),
        provenance=result.provenance,
    )


def _throughout(found: dict[str, list[Any]]) -> Claim:
    says = "Under adversarial training the deeper model has improved accuracy on clean images."
    if not all(found.values()):
        return Claim(says, "a trial is missing.", None)
    shallow, deep = (value[0]["history"][value[0]["clean epochs"] :] for value in found.values())
    better = sum(d["test"][0] > s["test"][0] for s, d in zip(shallow, deep, strict=True))
    return Claim(says, f"in {better} of {len(deep)} epochs.", better == len(deep) or (None if better else False))


PLASTICITY = PaperStudy(
    name="plasticity",
    where="thesis 004, table 5.1",
    shows="accuracy of a shallow and a deep CNN before and after adversarial training, and the adversary's success",
    trials=trials,
    report=report,
)
FIGURE_5_2 = PaperStudy(
    name="plasticity-figure-5.2",
    where="thesis 004, figure 5.2",
    shows="the same trainings epoch by epoch",
    trials=trials,
    report=figure,
)
