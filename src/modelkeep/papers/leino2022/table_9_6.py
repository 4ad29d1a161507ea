"""Table 9.6, its tables and synthetic data: logistic regression by SGD before and after each mitigation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modelkeep.bias.selection import orientation, remove, select_experts, select_parity
from modelkeep.core.method import declare
from modelkeep.papers.leino2022.binary_tables import table
from modelkeep.papers.leino2022.synthetic_data import EPOCHS, MOST_EPOCHS, draw, exact, sgd
from modelkeep.papers.result import Claim, mean, values
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.table import Cell, PaperTable
from modelkeep.study.names import trial
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial

Array = NDArray[Any]

_FIXES = ("before", "parity", "experts", "ℓ1")
KEPT = "experts*"
"""The same experts, but what is removed leaves the intercept as it was: another way to read the thesis."""
COLUMNS = ("p*", *(f"B, {fix}" for fix in _FIXES), "asymmetry", *(f"accuracy, {fix}" for fix in _FIXES))
# The thesis' rows in this order of columns, as shares and not in percent.
PAPER: dict[str, tuple[float | None, ...]] = {
    "CIFAR-10-binary": (0.5, 0.018, 0.017, 0.004, None, 0.52, 0.93, 0.931, 0.94, None),
    "CelebA-attractiveness": (0.504, 0.077, 0.077, 0.002, None, 0.502, 0.796, 0.796, 0.799, None),
    "arcene": (0.56, 0.027, 0.006, 0.012, 0.017, 0.577, 0.689, 0.69, 0.742, 0.694),
    "colon": (0.645, 0.231, 0.229, 0.226, 0.355, 0.51, 0.585, 0.587, 0.587, 0.645),
    "glioma": (0.694, 0.174, 0.174, 0.122, 0.17, 0.548, 0.763, 0.763, 0.767, 0.7544),
    "micromass": (0.69, 0.0068, 0.0066, 0.0069, 0.0068, 0.541, 0.984, 0.984, 0.984, 0.984),
    "pc/mac": (0.505, 0.016, 0.016, 0.014, 0.016, 0.606, 0.89, 0.89, 0.88, 0.89),
    "prostate": (0.51, 0.473, 0.472, 0.098, 0.281, 0.444, 0.527, 0.528, 0.902, 0.713),
    "smokers": (0.519, 0.474, 0.454, 0.08, 0.33, 0.504, 0.5, 0.507, 0.59, 0.512),
    "synthetic": (0.5, 0.241, 0.172, 0.236, 0.057, 0.999, 0.749, 0.779, 0.748, 0.714),
}
HERE = ("golub", "bladder", "leukaemia")
TEST_SHARE = 0.25  # the thesis does not say
WEAK, INSTANCES = 1000, 100

Measured = dict[str, list[float]]


@trial("leino2022/table-9.6", formerly=("modelkeep.bias.studies.table_9_6:on_table",))
def on_table(*, seed: int, dataset: str, epochs: int | None, splits: int) -> Measured:
    """Each column of the table, one number per random stratified split of a real set."""
    from sklearn.model_selection import StratifiedShuffleSplit

    x, y = table(dataset)
    found: Measured = defaultdict(list)
    divided = StratifiedShuffleSplit(splits, test_size=TEST_SHARE, random_state=seed).split(x, y)
    for run, (train, test) in enumerate(divided):
        found["p*"].append(float(y.mean()))
        for fix, (weights, bias) in _fix(found, x[train], y[train], epochs, _seed(seed, run)).items():
            said = x[test] @ weights + bias > 0
            found[f"B, {fix}"].append(float(np.mean(said.astype(float) - y[test])))
            found[f"accuracy, {fix}"].append(float(np.mean(said == y[test])))
    return found


@trial("leino2022/table-9.6-synthetic", formerly=("modelkeep.bias.studies.table_9_6:on_synthetic",))
def on_synthetic(*, seed: int, variance: float, epochs: int | None, splits: int) -> Measured:
    """The same on data of equation 9.11, drawn anew for each split; measured exactly, on all such data."""
    from sklearn.model_selection import train_test_split

    found: Measured = defaultdict(list)
    for run in range(splits):
        x, y = draw(INSTANCES, WEAK, variance, np.random.default_rng([seed, run]))
        x, _, y, _ = train_test_split(x, y, test_size=TEST_SHARE, stratify=y, random_state=_seed(seed, run))
        found["p*"].append(0.5)
        for fix, (weights, bias) in _fix(found, x, y, epochs, _seed(seed, run)).items():
            amplified, accuracy = exact(weights, bias, variance)
            found[f"B, {fix}"].append(amplified)
            found[f"accuracy, {fix}"].append(accuracy)
    return found


def _fix(found: Measured, x: Array, y: Array, epochs: int | None, seed: int) -> dict[str, tuple[Array, float]]:
    """The linear classifier as SGD leaves it, and after each fix; what is known of the training goes into `found`."""
    plain, sparse = (sgd(x, y, epochs, seed, penalty=penalty) for penalty in ("l2", "l1"))
    weights, bias, means = plain.coef_[0], float(plain.intercept_[0]), x.mean(axis=0)
    chosen, towards = select_experts(weights, bias, x, y).keep, orientation(x, y)
    found["asymmetry"].append(float(np.mean(towards[towards != 0] > 0)))
    found["epochs"].append(float(plain.n_iter_))
    found["training accuracy"].append(float(np.mean((x @ weights + bias > 0) == y)))
    return {
        "before": (weights, bias),
        "parity": remove(weights, bias, means, select_parity(weights, x, y)),
        "experts": remove(weights, bias, means, chosen),
        "ℓ1": (sparse.coef_[0], float(sparse.intercept_[0])),
        KEPT: (np.where(chosen, weights, 0.0), bias),
    }


def _seed(seed: int, run: int) -> int:
    return int(np.random.default_rng([seed, run]).integers(2**31))


def trials(size: Size, seed: int) -> Sequence[Trial]:
    """The sets that can be had and the synthetic one, stopped after five epochs and trained to the end."""
    splits = {"small": 10, "paper": 20}[size]
    return [
        *(
            Trial.of(on_synthetic, {"variance": variance, "epochs": epochs, "splits": splits}, seed)
            for variance in (3.0, 9.0)
            for epochs in (EPOCHS, None)
        ),
        *(
            Trial.of(on_table, {"dataset": dataset, "epochs": epochs, "splits": splits}, seed)
            for dataset in HERE
            for epochs in (EPOCHS, None)
        ),
    ]


def report(result: StudyResult) -> PaperTable:
    """Ours where there is one; the thesis' other rows for reference."""
    cells = []
    for record in result.records:
        given, found = record.parameters, values([record])
        name = given.get("dataset") or f"synthetic, variance {given['variance']:g}"
        name += ", to convergence" if given["epochs"] is None else f", {given['epochs']} epochs"
        paper = PAPER["synthetic"] if "variance" in given else ()
        first, *others = rows(name, found, paper, result)
        given_up = sum(count == MOST_EPOCHS for value in found for count in value["epochs"])
        if given_up:
            first = replace(first, note=f"{given_up} of {given['splits']} trainings stopped at {MOST_EPOCHS} epochs")
        cells += [first, *others, *_other_reading(name, found, paper, result)]
    for name, paper in PAPER.items():
        if name not in ("synthetic", "CIFAR-10-binary", "CelebA-attractiveness"):  # the images are another study
            cells += rows(name, [], paper, result, note="not available here")
    return PaperTable(
        study=result.study,
        cells=tuple(cells),
        claims=(_some_fix_helps(cells), _experts_on_synthetic(result)),
        provenance=result.provenance,
    )


def _some_fix_helps(cells: list[Cell]) -> Claim:
    ours = {(cell.row, cell.column): abs(cell.ours.value) for cell in cells if cell.ours is not None}
    measured = dict.fromkeys(row for row, _ in ours)
    helped = [row for row in measured if min(ours[row, f"B, {fix}"] for fix in _FIXES[1:]) < ours[row, "B, before"]]
    return Claim(
        "On every set, at least one mitigation reduces bias amplification.",
        f"|B| is smaller after one of them, by the means, in {len(helped)} of {len(measured)} rows.",
        len(helped) == len(measured) if measured else None,
    )


def _experts_on_synthetic(result: StudyResult) -> Claim:
    found = values(result.records, variance=9.0, epochs=EPOCHS)
    says = "Experts leave the synthetic set's bias almost as it was: 0.236 of 0.241."
    none, after, kept = (
        mean([number for value in found for number in value[f"B, {fix}"]], result.provenance.seed)
        for fix in ("before", "experts", KEPT)
    )
    if none is None or after is None or kept is None:
        return Claim(says, "a trial is missing.", None)
    return Claim(
        says,
        f"{after.value:.3f} of {none.value:.3f} (variance 9, {EPOCHS} epochs); with experts*, where the intercept does "
        f"not take up the mean of what is removed, {kept.value:.3f}.",
        not after.high < none.low,
    )


def rows(
    name: str,
    found: list[Measured],
    paper: Sequence[float | None],
    result: StudyResult,
    note: str = "a trial is missing",
) -> list[Cell]:
    """The cells of one row of the table, from what one or more trials found."""
    cells = []
    for column, printed in zip(COLUMNS, paper or (None,) * len(COLUMNS), strict=True):
        ours = mean([number for value in found for number in value[column]], result.provenance.seed)
        if ours is not None or not found:  # not where neither the thesis nor we measure it: ℓ1 on images
            cells.append(Cell(name, column, ours, printed, "" if found else note))
    return cells


def _other_reading(name: str, found: list[Measured], paper: Sequence[float | None], result: StudyResult) -> list[Cell]:
    """Experts whose removal leaves the intercept alone, beside the thesis' experts."""
    printed = dict(zip(COLUMNS, paper, strict=False))
    return [
        Cell(
            name,
            f"{measure}, {KEPT}",
            mean(value[f"{measure}, {KEPT}"], result.provenance.seed),
            printed.get(f"{measure}, experts"),
        )
        for value in found
        for measure in ("B", "accuracy")
    ]


_TABLE_9_6 = declare(
    "study",
    "bias-table-9.6",
    paper="Leino2022, table 9.6 (tables and synthetic data)",
    does="bias and accuracy of logistic regression before and after each mitigation",
)(PaperStudy(trials, report))
