"""Lower bounds on the ε of table C.2's networks for MNIST, from one run with canaries each (Steinke2023)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from modelkeep.core.method import declare
from modelkeep.core.results import Estimate
from modelkeep.papers.leino2022.defended import make_network, plain_recipe, private_training, split_data
from modelkeep.papers.result import Claim, values
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.papers.table import Cell, PaperTable
from modelkeep.privacy.private_training import AuditEpsilon
from modelkeep.study.names import trial
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial

AUDITS: tuple[tuple[str, float | None, str], ...] = (
    ("ε = 1", 1.0, "gradients"),
    ("ε = 4", 4.0, "gradients"),
    ("no defence", None, "records"),
    ("ε = 4", 4.0, "records"),
    ("ε = 1", 1.0, "records"),
)
CANARIES = {"gradients": 5000, "records": 1000}
"""A canary among gradients takes a coordinate, of which the network has 26,010, and no example's place."""


@trial("leino2022/audited-epsilon", version=1)
def audit(*, seed: int, epsilon: float | None, kind: str, canaries: int, images: int) -> dict[str, Any]:
    """The ε that is proved about one training on the private quarter of MNIST."""
    private, _, _ = split_data("mnist", images, seed)
    training = plain_recipe("mnist") if epsilon is None else private_training("mnist", epsilon, len(private))
    method = AuditEpsilon(training=training, kind=kind, canaries=canaries)  # type: ignore[arg-type]
    found = method(make_network(private, seed), private, seed=seed)
    best = max(found.guesses, key=lambda each: each.epsilon)
    return {
        "proved": found.epsilon.low,
        "own": found.epsilon.value,
        "claimed": found.claimed,
        "delta": found.delta,
        "made": best.made,
        "right": best.right,
    }


def trials(size: Size, seed: int) -> Sequence[Trial]:
    """One run each; more of them at the paper's size."""
    return [
        Trial.of(audit, {"epsilon": epsilon, "kind": kind, "canaries": CANARIES[kind], "images": 10**6}, seed + repeat)
        for repeat in range({"small": 1, "paper": 5}[size])
        for _, epsilon, kind in AUDITS
    ]


def report(result: StudyResult) -> PaperTable:
    """The proved ε with the claimed one in brackets; the interval has no upper end, which is not drawn."""
    cells, refuted, done = [], 0, 0
    for column, epsilon, kind in AUDITS:
        found = values(result.records, epsilon=epsilon, kind=kind)
        done += len(found)
        refuted += sum(value["claimed"] is not None and value["proved"] > value["claimed"] for value in found)
        value = min(found, key=lambda each: each["proved"], default=None)
        ours = None if value is None else Estimate(value["own"], value["proved"], value["own"], value["made"])
        note = "" if value is None else f"{value['right']} of {value['made']} guesses right"
        cells.append(Cell(f"MNIST, {CANARIES[kind]} {kind}", column, ours, None, note))
    says = "The ε of the accounting bounds what one run shows."
    claim = Claim(says, f"{refuted} of {done} runs refute it." if done else "a trial is missing.", refuted == 0 or None)
    return PaperTable(study=result.study, cells=tuple(cells), claims=(claim,), provenance=result.provenance)


_AUDITED_EPSILON = declare(
    "study",
    "audited-epsilon",
    paper="Steinke2023; Leino2022, appendix C.1",
    extra="private",
    does="lower bounds on ε from one run with canaries, for private and plain trainings on MNIST",
)(PaperStudy(trials, report))
