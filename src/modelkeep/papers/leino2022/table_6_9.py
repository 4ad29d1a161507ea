"""Table 6.9 of thesis 002: how tight the Lipschitz bounds are, on networks trained plainly and on GloRo Nets.

The small size has shallow networks that are trained for minutes. A bound multiplies from layer to layer, so those that
were trained plainly are bounded by less than 100 there, and two claims on how large a plain network's bound is fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from modelkeep.core.results import Estimate
from modelkeep.papers.leino2022.table_6_9_trials import steepness
from modelkeep.papers.paper import Cell, Claim, PaperStudy, PaperTable, Size, values
from modelkeep.study.study import StudyResult
from modelkeep.study.trial import Trial

RADII = {"mnist": 1.58, "cifar-10": 36 / 255}
METHODS = ("standard", "GloRo")
BOUNDS = ("global UB", "global LB", "local LB")
PAPER = {
    ("mnist", "standard"): (5.4e4, 1.4e2, 17.1),
    ("mnist", "GloRo"): (2.3, 1.9, 0.8),
    ("cifar-10", "standard"): (1.2e7, 1.1e3, 96.2),
    ("cifar-10", "GloRo"): (15.8, 11.0, 3.7),
}
"""Table 6.9 without Tiny-ImageNet, which cannot be had here."""
REACHED = {"mnist": 0.83, "cifar-10": 0.70}
"""The share of the upper bound that the thesis' search reached on GloRo Nets."""

_Found = dict[tuple[str, str], Any]


def trials(size: Size, seed: int) -> Sequence[Trial]:
    """One training per row, those that take longest first."""
    settings: dict[str, dict[str, dict[str, Any]]] = {
        "small": {
            "cifar-10": {"network": "2C2F", "images": 20_000, "epochs": 10, "examples": 128},
            "mnist": {"network": "2C2F", "images": 20_000, "epochs": 10, "examples": 128},
        },
        "paper": {
            "cifar-10": {"network": "6C2F", "images": 50_000, "epochs": 800, "examples": 10_000},
            "mnist": {"network": "4C3F", "images": 60_000, "epochs": 200, "examples": 10_000},
        },
    }
    return [
        Trial.of(steepness, {"data": data, "method": method, "radius": RADII[data], **setting}, seed)
        for data, setting in settings[size].items()
        for method in METHODS
    ]


def report(result: StudyResult) -> PaperTable:
    """Ours beside the thesis'. A global bound is one number; the local one is a mean over test examples."""
    found = {row: next(iter(values(result.records, data=row[0], method=row[1])), None) for row in PAPER}
    cells = [
        Cell(f"{data} at {RADII[data]:.3g}, {method}", column, _estimate(value, column), printed)
        for (data, method), value in found.items()
        for column, printed in zip((*BOUNDS, "clean accuracy", "VRA"), (*PAPER[data, method], None, None), strict=True)
    ]
    return PaperTable(
        study=result.study,
        where=TIGHTNESS.where,
        cells=tuple(cells),
        claims=tuple(_claims(found)),
        provenance=result.provenance,
    )


def _estimate(value: Any, column: str) -> Estimate | None:
    if value is None:
        return None
    if column == "local LB":
        return Estimate(*value[column])
    if column in BOUNDS:
        return Estimate(value[column], value[column], value[column], 1)
    return Estimate.rate(*value[column])


def _claims(found: _Found) -> list[Claim]:
    says = (
        "The upper bound is several orders of magnitude smaller on GloRo Nets than on standard networks.",
        "On GloRo Nets the lower bound reaches 83 % (MNIST) and 70 % (CIFAR-10) of the upper.",
        "The upper bound is much looser on a standard model.",
        "The local lower bound is essentially zero of the global upper one on standard models, 6–35 % on GloRo Nets.",
    )
    if not all(found.values()):
        return [Claim(sentence, "a trial is missing.", None) for sentence in says]
    smaller = {data: found[data, "standard"]["global UB"] / found[data, "GloRo"]["global UB"] for data in RADII}
    tight = {row: value["global LB"] / value["global UB"] for row, value in found.items()}
    local = {row: value["local LB"][0] / value["global UB"] for row, value in found.items()}
    return [
        Claim(says[0], _told(smaller, "{:.3g} times"), all(ratio >= 100 for ratio in smaller.values())),
        # A search that ends below says nothing about the bound: it may have missed the steepest place.
        Claim(says[1], _told(tight), True if all(tight[data, "GloRo"] >= REACHED[data] for data in RADII) else None),
        Claim(says[2], _told(tight), all(tight[data, "standard"] < tight[data, "GloRo"] / 2 for data in RADII)),
        Claim(
            says[3],
            _told(local),
            all(local[data, "standard"] < 0.01 and local[data, "GloRo"] >= 0.06 for data in RADII),
        ),
    ]


def _told(numbers: dict[Any, float], form: str = "{:.2%}") -> str:
    names = (key if isinstance(key, str) else ", ".join(key) for key in numbers)
    return (
        "; ".join(f"{name} {form.format(number)}" for name, number in zip(names, numbers.values(), strict=True)) + "."
    )


TIGHTNESS = PaperStudy(
    name="lipschitz-tightness",
    where="thesis 002, table 6.9",
    shows="upper and lower bounds of global and local Lipschitz constants, of standard networks and GloRo Nets",
    trials=trials,
    report=report,
)
