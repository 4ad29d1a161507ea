"""Table 6, and beyond the paper: what changes where the quantiser never gives a clean answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from modelkeep.core.method import declare
from modelkeep.core.results import Estimate
from modelkeep.extract.target import Guarded
from modelkeep.guard.information import information_bound
from modelkeep.papers.result import Claim, above, mean, values
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.table import Cell, PaperTable
from modelkeep.papers.tang2024.arrangement import ANIMALS, DRAWINGS, MNIST, TASKS
from modelkeep.papers.tang2024.defences import SECRET, SEEDED, UNORDERED, build_defence
from modelkeep.papers.tang2024.figures_5_6 import exact
from modelkeep.papers.tang2024.owner import prepare_owner
from modelkeep.papers.tang2024.paper_figures import GUARD_S, KNOCKOFF, NAIVE, PBAYES
from modelkeep.papers.tang2024.plans import make_plan
from modelkeep.papers.tang2024.tables_2_to_5 import protect, steal
from modelkeep.study.names import trial
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial


@trial("tang2024/table-6", formerly=("modelkeep.extract.studies.quantising:ask_twice",))
def ask_twice(*, seed: int, task: str, plan: dict[str, Any], defence: str, epsilon: float = 1.0) -> dict[str, Any]:
    """m queries per image, m = 2: which answers changed, and how far both guesses of them are from the clean ones."""
    mine = prepare_owner(task, plan, seed)
    guarded, asked = Guarded(mine.target, build_defence(defence, epsilon, mine)), mine.asked
    first, second = guarded.probs(asked), guarded.probs(asked)
    changed = (first != second).any(dim=1)
    clean = mine.clean(asked).cpu()
    once, twice = ((guess - clean).double().norm(dim=1)[changed] for guess in (first, (first + second) / 2))
    return {"changed": [int(changed.sum()), len(asked)], "once": once.tolist(), "twice": twice.tolist()}


@trial("tang2024/lemma-2", formerly=("modelkeep.extract.studies.quantising:bound",))
def measure_bound(*, seed: int, task: str, plan: dict[str, Any], defence: str, epsilon: float = 1.0) -> dict[str, Any]:
    """Lemma 2's bound for the thief's queries, and the squared error of the best recovery that there could be."""
    mine = prepare_owner(task, plan, seed)
    guarded, asked = Guarded(mine.target, build_defence(defence, epsilon, mine)), mine.asked
    answers = guarded.probs(asked)
    found = information_bound(mine.clean(asked).cpu().numpy(), answers.numpy(), seed=seed)
    least, best = found.bound_by_answer, found.bayes_loss
    return {
        "bound": [least.value, least.low, least.high, least.n],
        "by Jensen": found.bound,
        "error": [best.value, best.low, best.high, best.n],
    }


ONCE, TWICE, CHANGED = "asked once", "asked twice", "share changed"
PRINTED = {
    (ANIMALS, UNORDERED): (0.463, 0.252, 393 / 50_000),
    (DRAWINGS, UNORDERED): (0.372, 0.239, 2071 / 50_000),
}
"""Table 6: CIFAR-10's row beside our photographs, CIFAR-100's beside our hundred classes."""
LEMMA, JENSEN, BEST = "E‖ỹ − y‖²: lemma 2", "with Jensen", "best recovery"
_FORMS = (GUARD_S, SECRET, SEEDED)


def _trials(size: Size, seed: int) -> Sequence[Trial]:
    """One per task and order."""
    return [
        Trial.of(ask_twice, {"task": task, "plan": make_plan(task, size).to_json(), "defence": defence}, seed)
        for task in TASKS
        for defence in (UNORDERED, GUARD_S)
    ]


def report_table_6(result: StudyResult) -> PaperTable:
    """The mean recovery distance on the predictions that changed, as the thief asks once and twice."""
    cells, claims = [], []
    for task in TASKS:
        for defence in (UNORDERED, GUARD_S):
            found = next(iter(values(result.records, task=task, defence=defence)), None)
            printed = PRINTED.get((task, defence), (None, None, None))
            once, twice = (found and mean(found[key], result.provenance.seed) for key in ("once", "twice"))
            changed = found and Estimate.rate(*found["changed"])
            note = "" if found is None or found["once"] else "no answer changed"
            cells += [
                Cell(f"{task}: {defence}", ONCE, once, printed[0], note),
                Cell(f"{task}: {defence}", TWICE, twice, printed[1], note),
                Cell(f"{task}: {defence}", CHANGED, changed, printed[2]),
            ]
            claims.append(_leak(task, once, twice) if defence == UNORDERED else _consistent(task, found))
    return PaperTable(study=result.study, cells=tuple(cells), claims=tuple(claims), provenance=result.provenance)


def _leak(task: str, once: Estimate | None, twice: Estimate | None) -> Claim:
    return above(f"{task}: without an order, asking twice brings the thief closer.", "once and twice", once, twice)


def _consistent(task: str, found: Any) -> Claim:
    says = f"{task}: with ModelGuard-S's order no answer ever changes."
    if found is None:
        return Claim(says, "a trial is missing.", None)
    return Claim(says, f"{found['changed'][0]} of {found['changed'][1]} changed.", found["changed"][0] == 0)


def _never_clean(size: Size, seed: int) -> Sequence[Trial]:
    """The paper's form and the two that never answer cleanly: their answers, two thefts each, and lemma 2's bound."""
    made = []
    for task in (MNIST, DRAWINGS):
        shared = {"task": task, "plan": make_plan(task, size).to_json()}
        for form in _FORMS:
            made.append(Trial.of(protect, {**shared, "defence": form}, seed))
            made.append(Trial.of(measure_bound, {**shared, "defence": form}, seed))
            for attack in (NAIVE, PBAYES):
                named = {"strategy": KNOCKOFF, "attack": attack, "defence": form}
                made.append(Trial.of(steal, {**shared, **named}, seed))
    return made


def _compare_forms(result: StudyResult) -> PaperTable:
    """What the two forms cost and gain beside the paper's."""
    cells: list[Cell] = []
    shares: dict[tuple[str, str], Estimate] = {}
    bounds: list[tuple[str, float, float]] = []
    for task in (MNIST, DRAWINGS):
        for form in _FORMS:
            row = f"{task}: {form}"
            for key, value in _read_figures(result, task, form).items():
                cells.append(Cell(row, key, value, None))
            found = {cell.column: cell.ours for cell in cells if cell.row == row}
            if (share := found["clean answers"]) is not None:
                shares[task, form] = share
            low, error = found[LEMMA], found[BEST]
            if low is not None and error is not None:
                bounds.append((row, low.value, error.value))
    return PaperTable(
        study=result.study,
        cells=tuple(cells),
        claims=(_share(shares), _claim_bound(bounds)),
        provenance=result.provenance,
    )


def _read_figures(result: StudyResult, task: str, form: str) -> dict[str, Estimate | None]:
    """All figures of one form; None where its trial is missing."""
    bare = [record for record in result.records if record.name.endswith("/protection")]
    lemma = [record for record in result.records if record.name.endswith("/lemma-2")]
    does = next(iter(values(bare, task=task, defence=form)), None)
    least = next(iter(values(lemma, task=task, defence=form)), None)
    naive, bayes = (
        next(iter(values(result.records, task=task, defence=form, attack=attack)), None) for attack in (NAIVE, PBAYES)
    )
    return {
        "clean answers": does and Estimate.rate(*does["clean answers"]),
        "largest ℓ1": does and exact(does["distortion"][0], does["distortion"][2]),
        "mean ℓ1": does and exact(does["distortion"][1], does["distortion"][2]),
        "answers": does and exact(does["different answers"], does["distortion"][2]),
        "naive: distance": naive and Estimate(*naive["distance"]),
        "pBayes: distance": bayes and Estimate(*bayes["distance"]),
        "naive: accuracy": naive and Estimate.rate(*naive["accuracy"]),
        "pBayes: accuracy": bayes and Estimate.rate(*bayes["accuracy"]),
        LEMMA: least and Estimate(*least["bound"]),
        JENSEN: least and exact(least["by Jensen"], least["bound"][3]),
        BEST: least and Estimate(*least["error"]),
    }


def _share(shares: dict[tuple[str, str], Estimate]) -> Claim:
    says = "With a secret no answer is clean."
    found = {task: share for (task, form), share in shares.items() if form == SECRET}
    told = ", ".join(f"{task} {share.value:.1%}" for task, share in found.items())
    verdict = all(share.value == 0 for share in found.values()) if found else None
    return Claim(says, f"{told or 'a trial is missing'}.", verdict)


def _claim_bound(bounds: list[tuple[str, float, float]]) -> Claim:
    """A theorem of the true entropy. Ours is estimated, and too large where few samples fill many dimensions."""
    says = "Lemma 2's bound, with its entropy estimated, lies below the squared error of the best recovery."
    told = "; ".join(f"{row} {low:.2g} and {error:.2g}" for row, low, error in bounds)
    return Claim(says, f"{told or 'a trial is missing'}.", all(e >= low for _, low, e in bounds) if bounds else None)


TABLE_6 = declare(
    "study",
    "quantisation",
    paper="Tang2024, table 6 in kind",
    does="recovery distance where the thief asks once and twice, with and without an order of the centroids",
    extra="guard",
)(PaperStudy(_trials, report_table_6))
NEVER_CLEAN = declare(
    "study",
    "quantisation-never-clean",
    paper="Tang2024, algorithm 1 without clean answers, which is ours, and lemma 2",
    does="what the quantiser's forms without clean answers cost and gain, and the information bound",
    extra="guard",
)(PaperStudy(_never_clean, _compare_forms))
