"""Carlini and Wagner's attacks in l2, linf and l0: the smallest change by gradient descent and a search for c."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from modelkeep.attack.base import Attack, norm_setting
from modelkeep.attack.case import Search
from modelkeep.attack.minimum_norm.cw_l0 import L0Search
from modelkeep.attack.minimum_norm.cw_l2 import L2Search
from modelkeep.attack.minimum_norm.cw_linf import LinfSearch
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.norms import AnyNorm


@declare("attack", "cw", access="weights", paper="Carlini2017")
class CW(Attack):
    """Carlini and Wagner's smallest change, in l2, linf or l0.

    In l2 it minimises `|δ|² + c · max(0, confidence − lead)`, where the lead is that of the wanted answer's logit over
    the best other one, by Adam, with a binary search over each example's c. In linf, no change beyond τ is allowed,
    and τ becomes smaller and smaller. In l0, which counts changed pixels (or values of a table), the l2 search is
    repeated with ever fewer of them, so that it is the slowest.

    It differs from the paper in what makes it fast: it starts just across the boundary, with a c that fits the slope
    there; each c starts at the best point so far; an example is dropped when another c no longer helps. Bounds are
    kept by projection and not by tanh, in which pixels at exactly 0 or 1 cannot move.
    """

    cheap: ClassVar[dict[str, Any]] = {"steps": 3, "binary_search_steps": 2}

    norm: AnyNorm = norm_setting("l2", "linf", "l0")
    confidence: float = setting(
        "By how much, in logits, the wanted answer should lead.", default=0.0, at_least=0, below=math.inf
    )
    steps: int = setting("Steps of Adam for each constant (in linf: each τ).", default=50, at_least=1)
    binary_search_steps: int = setting(
        "How many constants (in linf: values of τ) are tried at most.", default=9, at_least=1
    )
    initial_constant: float | None = setting(
        "The first c; without it, one that fits each example. In linf there is none.",
        default=None,
        above=0,
        below=math.inf,
    )
    learning_rate: float = setting(
        "Of Adam at the start, in units of the root mean square change (in linf: of τ).",
        default=1.0,
        above=0,
        below=math.inf,
    )

    def __post_init__(self) -> None:
        if self.norm == "linf" and self.initial_constant is not None:
            allowed = "None where the norm is 'linf', which needs none"
            raise bad_parameter("CW", "initial_constant", allowed, self.initial_constant)

    @property
    def title(self) -> str:
        """As the papers call it."""
        return "C&W"

    def searches(self, model: Model, data: Data) -> list[Search]:
        """The search of the norm."""
        if self.norm == "linf":
            return [LinfSearch(self)]
        return [L2Search(self) if self.norm == "l2" else L0Search(self)]
