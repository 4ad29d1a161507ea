"""Table 7.3 of thesis 002: what is gained when a certificate may name several classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from modelkeep.certify.studies.relaxing import RADII, relax
from modelkeep.results import Estimate
from modelkeep.study.paper import Cell, Claim, PaperStudy, PaperTable, Size, values
from modelkeep.study.study import StudyResult
from modelkeep.study.trial import Trial

GUARANTEES = {
    "overlapping": ("standard", "RT2", "affinity"),
    "fashion-mnist": ("standard", "RT3", "affinity"),
    "cifar-10": ("standard", "RT3", "affinity"),
}
COLUMNS = ("VRA", "rejection rate", "clean accuracy")
PAPER = {
    "EuroSAT, standard": (0.749, 0.204, 0.862),
    "EuroSAT, RT3": (0.908, 0.073, 0.987),
    "EuroSAT, highway+river affinity": (0.798, 0.170, 0.917),
    "EuroSAT, highway+river+agriculture affinity": (0.819, 0.151, 0.930),
    "CIFAR-100, standard": (0.281, 0.640, 0.473),
    "CIFAR-100, RT5": (0.360, 0.562, 0.706),
    "CIFAR-100, superclass affinity": (0.323, 0.599, 0.520),
    "Tiny-Imagenet, standard": (0.210, 0.639, 0.346),
    "Tiny-Imagenet, RT5": (0.277, 0.447, 0.537),
}
"""Table 7.3, at a radius of 0.141. Its last row, ACAS Xu, is the study `targeted`."""


def trials(size: Size, seed: int) -> Sequence[Trial]:
    """One training per data set and guarantee, those that take longest first."""
    plane = {"images": 2_000, "epochs": 60, "rate": 1e-2, "network": "dense"}
    settings: dict[str, dict[str, dict[str, Any]]] = {
        "small": {
            "cifar-10": {"images": 20_000, "epochs": 6, "rate": 2e-3, "network": "2C2F"},
            "fashion-mnist": {"images": 20_000, "epochs": 6, "rate": 2e-3, "network": "2C2F"},
            "overlapping": plane,
        },
        "paper": {
            "cifar-10": {"images": 50_000, "epochs": 200, "rate": 1e-3, "network": "B.5"},
            "fashion-mnist": {"images": 60_000, "epochs": 200, "rate": 1e-3, "network": "B.5"},
            "overlapping": {**plane, "images": 10_000, "epochs": 200},
        },
    }
    return [
        Trial.of(relax, {"data": data, "guarantee": guarantee, **setting}, seed)
        for data, setting in settings[size].items()
        for guarantee in GUARANTEES[data]
    ]


def report(result: StudyResult) -> PaperTable:
    """Ours and the thesis' rows. Intervals are over test examples: one training says nothing about the next."""
    found = {
        (data, guarantee): next(iter(values(result.records, data=data, guarantee=guarantee)), None)
        for data, guarantees in GUARANTEES.items()
        for guarantee in guarantees
    }
    ours = [
        Cell(f"{data} at {RADII[data]:.3g}, {guarantee}", column, _rate(value, column), None)
        for (data, guarantee), value in found.items()
        for column in COLUMNS
    ]
    thesis = [
        Cell(row, column, None, printed, note="its data cannot be had here")
        for row, numbers in PAPER.items()
        for column, printed in zip(COLUMNS, numbers, strict=True)
    ]
    return PaperTable(
        study=result.study,
        where=RELAXED.where,
        cells=(*ours, *thesis),
        claims=tuple(_claims(found)),
        provenance=result.provenance,
    )


_Found = dict[tuple[str, str], Any]


def _claims(found: _Found) -> list[Claim]:
    relaxed = {data: guarantees[1] for data, guarantees in GUARANTEES.items()}
    affinity = dict.fromkeys(GUARANTEES, "affinity")
    return [
        _on_all(
            "RTK GloRo Nets consistently outperform the standard GloRo Net, by 6 to 16 points of VRA.",
            found,
            "VRA",
            relaxed,
            1,
        ),
        _on_all("They reject fewer points, as few as half.", found, "rejection rate", relaxed, -1),
        _on_all(
            "Affinity GloRo Nets consistently outperform the standard one, by 4 to 8 points of VRA.",
            found,
            "VRA",
            affinity,
            1,
        ),
        _mostly(
            "About 80 % of what an RTK GloRo Net certifies has a top-1 guarantee.",
            {data: value and value["top-k robust"][0] for data, value in _of(found, relaxed)},
        ),
        _mostly(
            "Without supervision 78 % of the sets it names lie within one group (CIFAR-100's superclasses).",
            {data: value and value["within a group"] for data, value in _of(found, relaxed)},
        ),
    ]


def _of(found: _Found, guarantee: dict[str, str]) -> list[tuple[str, Any]]:
    return [(data, found[data, name]) for data, name in guarantee.items()]


def _on_all(says: str, found: _Found, column: str, guarantee: dict[str, str], sign: int) -> Claim:
    """Holds where the intervals are apart on every data set; does not where they are apart the other way on one."""
    told, verdicts = [], []
    for data, name in guarantee.items():
        relaxed, standard = _rate(found[data, name], column), _rate(found[data, "standard"], column)
        if relaxed is None or standard is None:
            return Claim(says, f"{data}: a trial is missing.", None)
        told.append(f"{data} {100 * (relaxed.value - standard.value):+.1f} points")
        better = relaxed.low > standard.high if sign > 0 else relaxed.high < standard.low
        worse = relaxed.high < standard.low if sign > 0 else relaxed.low > standard.high
        verdicts.append(True if better else False if worse else None)
    return Claim(says, f"{', '.join(told)}.", _together(verdicts))


def _mostly(says: str, shares: dict[str, Any]) -> Claim:
    """Holds where on every data set most are so."""
    told, verdicts = [], []
    for data, counts in shares.items():
        if counts is None or counts[1] == 0:
            return Claim(says, f"{data}: nothing was certified, or a trial is missing.", None)
        share = Estimate.rate(*counts)
        told.append(f"{data} {share.value:.0%}")
        verdicts.append(share.low > 0.5 if share.excludes(0.5) else None)
    return Claim(says, f"{', '.join(told)}.", _together(verdicts))


def _together(verdicts: Sequence[bool | None]) -> bool | None:
    return False if False in verdicts else None if None in verdicts else True


def _rate(value: Any, column: str) -> Estimate | None:
    return None if value is None else Estimate.rate(*value[column])


RELAXED = PaperStudy(
    name="relaxed-guarantees",
    where="thesis 002, table 7.3",
    shows="verified accuracy, rejections and clean accuracy of standard, relaxed top-K and affinity GloRo Nets",
    trials=trials,
    report=report,
)
