"""ModelGuard-W without the label is at the optimum of its linear programme, as HiGHS finds it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from modelkeep.guard.defences.modelguard_w import ModelGuardW
from modelkeep.guard.defences.modelguard_w_free import ModelGuardWFree
from modelkeep.guard.grid import ONE, distortion, snap


@pytest.mark.parametrize("classes", [2, 5, 30])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0])
def test_it_is_at_the_optimum(classes: int, epsilon: float) -> None:
    clean = snap(np.random.default_rng(classes).dirichlet(np.ones(classes), size=6))
    answers = ModelGuardWFree(epsilon)(clean)
    assert (distortion(answers, clean.units) + clean.spent <= epsilon * ONE).all()
    identity = np.eye(classes)
    for y, answer in zip(clean.units / ONE, answers / ONE, strict=True):
        # Variables ŷ and t with |ŷ − y| ≤ t, Σ t ≤ ε.
        above = np.block([[identity, -identity], [-identity, -identity], [np.zeros(classes), np.ones(classes)]])
        best = linprog(
            np.concatenate([np.log(np.maximum(y, 0.5 / ONE)), np.zeros(classes)]),
            A_ub=above,
            b_ub=np.concatenate([y, -y, [epsilon]]),
            A_eq=np.concatenate([np.ones(classes), np.zeros(classes)])[None],
            b_eq=[1.0],
        )
        ours = float(answer @ np.log(np.maximum(y, 0.5 / ONE)))
        assert ours == pytest.approx(best.fun, abs=1e-4)


def test_without_the_label_it_misleads_more_and_changes_labels() -> None:
    clean = snap(np.random.default_rng(0).dirichlet(np.ones(10), size=100))
    cost = np.log(np.maximum(clean.units, 1))
    free, kept = ModelGuardWFree(1.0)(clean), ModelGuardW(1.0)(clean)
    assert ((free * cost).sum(axis=1) <= (kept * cost).sum(axis=1) + ONE * 1e-5).all()
    assert (free.argmax(axis=1) != clean.labels).mean() > 0.5
