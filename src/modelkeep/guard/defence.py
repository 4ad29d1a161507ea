"""What a defence is: a function p from clean predictions to the answers that leave, with its state declared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch

from modelkeep.core.method import declaration_of, setting
from modelkeep.guard.grid import Predictions, Units


class Defence(ABC):
    """A prediction perturbation ŷ = p(y) (Tang2024, section 2): a pure function of the prediction and of its state.

    A subclass is declared in the family "guard". `keeps_top` says whether the top-1 label stays, `needs_inputs` whether
    it looks at the query itself and not only at its prediction.
    """

    keeps_top = True
    needs_inputs = False

    @property
    def name(self) -> str:
        """Its name in the registry; of a defence that is not declared, its class."""
        own = declaration_of(self)
        return own.name if own is not None else type(self).__name__

    @property
    def epsilon(self) -> float:
        """The largest ℓ1 distortion that it may cause: 2, the diameter of the simplex, where it promises no budget."""
        return 2.0

    def initial(self, classes: int) -> Any:
        """Its state before the first query; None for a defence without a state."""
        return None

    @abstractmethod
    def __call__(self, predictions: Predictions, state: Any = None, inputs: torch.Tensor | None = None) -> Units:
        """The answers, (n, classes). Rows are answered in order; a state is only ever appended to."""


def epsilon_setting(default: float) -> Any:
    """The ℓ1 budget of a defence that keeps one."""
    return setting("The largest l1 distance of an answer from its prediction.", default=default, at_least=0, at_most=2)
