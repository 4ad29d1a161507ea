"""The defences of the paper by their names in its tables, tuned as it tunes them, before one target."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

from modelkeep.guard.defence import Defence
from modelkeep.guard.defences import ModelGuardS, ModelGuardW, NoDefence, Rounding, TopOne, Unordered
from modelkeep.guard.defences.calibration import calibrate_beta, calibrate_threshold
from modelkeep.guard.defences.mad import MAD
from modelkeep.guard.defences.misinformation import AdaptiveMisinformation
from modelkeep.guard.grid import snap
from modelkeep.papers.tang2024 import paper_figures
from modelkeep.papers.tang2024.networks import build_network
from modelkeep.papers.tang2024.owner import Owner

UNORDERED, SECRET, SEEDED = "unordered", "ModelGuard-S, secret", "ModelGuard-S, seeded"
_LOST = 0.015
"""The accuracy that adaptive misinformation may cost the owner; the paper's tables lose 0.8 to 1.5 points."""
_TRIED = 2_000
"""The test examples on which its τ is found."""


def build_defence(name: str, epsilon: float, mine: Owner) -> Defence:
    """The defence of that name with the budget `epsilon`, where it has one.

    As in section 4.2, RevSig's β is the largest that keeps the largest distortion of the thief's queries within the
    budget, and AM's τ the largest that costs the owner's own test set little accuracy.
    """
    made: dict[str, Callable[[], Defence]] = {
        paper_figures.NONE: NoDefence,
        paper_figures.REVSIG: lambda: calibrate_beta(mine.clean(mine.asked).cpu().numpy(), epsilon),
        paper_figures.MAD: lambda: MAD(build_network(mine.plan.surrogate, mine.data.train, mine.seed + 2), epsilon),
        paper_figures.AM: lambda: _build_misinformation(mine),
        paper_figures.TOP: TopOne,
        paper_figures.ROUNDING: Rounding,
        paper_figures.GUARD_W: partial(ModelGuardW, epsilon),
        paper_figures.GUARD_S: partial(ModelGuardS, epsilon),
        UNORDERED: partial(Unordered, epsilon),
        SECRET: partial(ModelGuardS, epsilon, secret=b"modelkeep study"),
        SEEDED: lambda: ModelGuardS(epsilon, seeded=snap(mine.clean(mine.data.train.x).cpu().numpy()).units),
    }
    return made[name]()


@lru_cache(maxsize=1)
def _build_misinformation(mine: Owner) -> AdaptiveMisinformation:
    """Kept, because to find τ takes as many passes over the test set as a training."""
    misinformation = mine.misinformation()
    threshold = calibrate_threshold(mine.target, misinformation, mine.data.test.first(_TRIED), _LOST)
    return AdaptiveMisinformation(threshold, misinformation)
