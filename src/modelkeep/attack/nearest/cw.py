"""Carlini & Wagner's attacks (2017) in L2, L∞ and L0: the smallest change by gradient descent and a search for c."""

from __future__ import annotations

from typing import Literal

import torch

from modelkeep.attack.case import Search, Target
from modelkeep.attack.frame import carry_out
from modelkeep.attack.nearest.cw_l0 import CWL0
from modelkeep.attack.nearest.cw_l2 import CWL2
from modelkeep.attack.nearest.cw_linf import CWLinf
from modelkeep.attack.result import Attacked
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball


def cw(
    model: Model,
    data: Data,
    *,
    norm: Literal["l2", "linf", "l0"] = "l2",
    confidence: float = 0.0,
    steps: int = 50,
    binary_search_steps: int = 9,
    initial_constant: float | None = None,
    learning_rate: float = 1.0,
    target: str | Target | None = None,
    mask: torch.Tensor | None = None,
    batch_size: int = 256,
    seed: int,
) -> Attacked:
    """Look for the smallest change of each example that changes the answer.

    In L2 it minimises `|δ|² + c · max(0, confidence − lead)`, where the lead is that of the wanted answer's logit over
    the best other one, by Adam, with a binary search over each example's c. It differs from the paper in what makes it
    fast: it starts just across the boundary, with a c that fits the slope there; each c starts at the best point so
    far; an example is dropped when another c no longer helps. Bounds are kept by projection and not by tanh, in
    which pixels at exactly 0 or 1 cannot move.

    Args:
        model: The model; gradients of its weights are not computed, and it is left as it was.
        data: Examples with their true labels.
        norm: "l2"; "linf", by smaller and smaller τ; or "l0", which counts changed pixels (or values of a table) and
            repeats the L2 search with ever fewer of them, so that it is the slowest.
        confidence: By how much, in logits, the wanted answer should lead.
        steps: Steps of Adam for each constant (in L∞: each τ).
        binary_search_steps: How many constants (in L∞: values of τ) are tried at most.
        initial_constant: The first c; None takes one that fits each example. L∞ has none.
        learning_rate: Of Adam at the start, in units of the root mean square change (in L∞: of τ).
        target: The class that the answer should become; without it, any wrong answer will do.
        mask: True where the input may change; it must broadcast to the inputs' shape.
        batch_size: Examples that are run at once.
        seed: Nothing is drawn; it goes into the result.
    """
    if norm not in ("l2", "linf", "l0"):
        raise bad_parameter("cw", "norm", "'l2', 'linf' or 'l0'", norm)
    if norm == "linf" and initial_constant is not None:
        raise bad_parameter(
            "cw", "initial_constant", "None where the norm is 'linf', which needs none", initial_constant
        )
    in_l2 = CWL2(confidence, steps, binary_search_steps, initial_constant, learning_rate)
    searches: dict[str, Search] = {
        "l2": in_l2,
        "linf": CWLinf(confidence, steps, binary_search_steps, learning_rate),
        "l0": CWL0(in_l2),
    }
    return carry_out(
        model,
        data,
        [searches[norm]],
        attack="C&W",
        ball=Ball(norm, None, model.bounds),
        target=target,
        mask=mask,
        batch_size=batch_size,
        seed=seed,
    )
