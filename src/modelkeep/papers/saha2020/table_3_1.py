"""Table 3.1: the time of inference and training in the clear and on hidden data; ours are ratios within one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch

from modelkeep.core.method import declare
from modelkeep.core.results import Estimate
from modelkeep.papers.result import Claim
from modelkeep.papers.saha2020 import encrypted_costs as costs
from modelkeep.papers.saha2020 import encrypted_training_costs as training_costs
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.table import Cell, PaperTable
from modelkeep.study.names import trial
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial

Way = Callable[[int, int, int], costs.Cost]
INFERENCE: dict[str, Way] = {
    "inference: plain": costs.plain_inference,
    "inference: CKKS, one sample": partial(costs.ckks, packing="single"),
    "inference: CKKS, 4,096 samples": partial(costs.ckks, packing="packed"),
    "inference: TFHE, integers": costs.tfhe,
    "inference: shares, one process": costs.shares_inference,
    "inference: shares, three parties and a dealer": costs.shares_in_processes,
}
TRAINING: dict[str, Way] = {
    "training: plain": training_costs.plain_training,
    "training: functional, first layer": training_costs.functional_training,
    "training: CKKS, logistic regression": training_costs.ckks_training,
    "training: shares, one process": partial(training_costs.shares_training, in_processes=False),
    "training: shares, three parties and a dealer": partial(training_costs.shares_training, in_processes=True),
    "training: governed split": training_costs.governed_training,
}
TIME, TIMES_PLAIN, BYTES, PER_PRODUCT = "ms", "times plain", "bytes", "bytes per product"
MEMORY, ACCURACY, ERROR = "peak memory, MB", "accuracy", "largest error"
YEAR = 365.25 * 86_400
PAPER: dict[tuple[str, str], float] = {
    ("inference: plain", TIME): 0.1,
    ("inference: CKKS, one sample", TIME): 300e3,
    ("inference: CKKS, one sample", TIMES_PLAIN): 3e6,
    ("inference: shares, three parties and a dealer", TIMES_PLAIN): 24,
    ("inference: shares, three parties and a dealer", PER_PRODUCT): 16,
    ("training: plain", TIME): 30e3,
    ("training: functional, first layer", TIME): 600e3,
    ("training: functional, first layer", TIMES_PLAIN): 20,
    ("training: CKKS, logistic regression", TIMES_PLAIN): 10 * YEAR / 30,
}
"""The thesis' times, of networks and machines that it does not name, a whole training each; and the lower bounds of
Martic2018, section 1, for multi-party computation: more than 24 times, more than 16 bytes per multiplication."""
FHE_TRAINING = 10 * YEAR / 30
"""The thesis' ten years against 30 s."""
HOMOMORPHIC = 1000
"""Martic2018, section 1: homomorphic encryption costs more than 1000 times per multiplication."""


@trial("saha2020/table-3.1", version=2)
def measure(*, seed: int, way: str, repeats: int, size: int) -> costs.Cost:
    """The cost of one way, with plain beside it; `size` is the batch of an inference or the steps of a training."""
    torch.set_num_threads(1)
    costs.forget_peak()
    return {**INFERENCE, **TRAINING}[way](seed, repeats, size)


def trials(size: Size, seed: int) -> Sequence[Trial]:
    """One per way. The batch is 450 as in our other measurements; a training has steps enough for a mean."""
    repeats = {"small": 5, "paper": 200}[size]
    return [
        Trial.of(measure, {"way": way, "repeats": repeats, "size": _size(way, size)}, seed)
        for way in (*INFERENCE, *TRAINING)
    ]


def _size(way: str, size: Size) -> int:
    if way in INFERENCE:
        return 450
    if way.startswith(("training: functional", "training: CKKS")):
        return {"small": 1, "paper": 20}[size]
    return {"small": 100, "paper": 2000}[size]


def report(result: StudyResult) -> PaperTable:
    """Ours beside the thesis' and Martic2018's."""
    found: dict[str, costs.Cost] = {
        record.parameters["way"]: record.value for record in result.records if record.state == "done"
    }
    cells = [cell for way in (*INFERENCE, *TRAINING) for cell in _cells(way, found.get(way), result.provenance.seed)]
    return PaperTable(
        study=result.study, cells=tuple(cells), claims=tuple(_claims(found)), provenance=result.provenance
    )


def _cells(way: str, cost: costs.Cost | None, seed: int) -> list[Cell]:
    if cost is None or "missing" in cost:
        note = "" if cost is None else "not measured: " + str(cost["missing"]).rstrip(".")
        return [Cell(way, TIME, None, PAPER.get((way, TIME)), note)]
    values: dict[str, Estimate | None] = {
        TIME: Estimate.bootstrap(1e3 * np.array(cost["seconds"]), seed, np.median),
        TIMES_PLAIN: _exactly(_ratio(cost)),
        BYTES: _known(cost, "bytes", 1.0),
        PER_PRODUCT: _known(cost, "bytes", 1 / costs.PRODUCTS) if way in INFERENCE else None,
        MEMORY: _known(cost, "memory", 1e-6),
        ACCURACY: Estimate.rate(*cost["right"]) if "right" in cost else None,
        ERROR: _known(cost, "error", 1.0),
    }
    return [Cell(way, name, value, PAPER.get((way, name))) for name, value in values.items() if value is not None]


def _claims(found: dict[str, costs.Cost]) -> list[Claim]:
    def ratio(way: str) -> float | None:
        cost = found.get(way)
        return None if cost is None or "missing" in cost else _ratio(cost)

    def at_least(says: str, way: str, bound: float) -> Claim:
        ours = ratio(way)
        if ours is None:
            return Claim(says, f"{way}: not measured.", None)
        return Claim(says, f"{way}: {ours:,.0f} times plain.", ours > bound)

    return [
        at_least("Inference on encrypted data takes 3,000,000 times as long (thesis).", *_CKKS, 3e6),
        at_least("Homomorphic encryption costs more than 1000 times (Martic2018).", *_CKKS, HOMOMORPHIC),
        at_least(
            "Homomorphic encryption costs more than 1000 times (Martic2018), also with 4,096 samples at once.",
            "inference: CKKS, 4,096 samples",
            HOMOMORPHIC,
        ),
        at_least(
            "Multi-party computation costs more than 24 times (Martic2018).",
            "inference: shares, three parties and a dealer",
            24,
        ),
        at_least("Functional training takes 20 times as long (thesis).", "training: functional, first layer", 20),
        at_least(
            f"Training under FHE takes {FHE_TRAINING:,.0f} times as long (thesis).",
            "training: CKKS, logistic regression",
            FHE_TRAINING,
        ),
    ]


_CKKS = ("inference: CKKS, one sample",)


def _ratio(cost: costs.Cost) -> float:
    return float(median(cost["seconds"]) / median(cost["plain"]))


def _exactly(value: float) -> Estimate:
    return Estimate(value, value, value, 1)


def _known(cost: costs.Cost, name: str, factor: float) -> Estimate | None:
    value: Any = cost.get(name)
    return None if value is None else _exactly(float(value) * factor)


TABLE_3_1 = declare(
    "study",
    "encryption",
    paper="Saha2020, table 3.1",
    extra="encrypt",
    does="the cost of inference and training on encrypted and shared data, beside plain in one run",
)(PaperStudy(trials, report))
