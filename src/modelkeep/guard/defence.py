"""What a defence is: a function p from clean predictions to the answers that leave, with its state declared."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from modelkeep.guard.grid import Predictions, Units


class Defence(Protocol):
    """A prediction perturbation ŷ = p(y), section 2 of the paper: a pure function of the prediction and of its state.

    Frozen dataclasses. `epsilon` is the ℓ1 budget that it promises (2.0 where it promises none), `keeps_top` whether
    the top-1 label stays, `needs_inputs` whether it looks at the query itself and not only at its prediction.
    """

    name: str
    keeps_top: bool
    needs_inputs: bool

    @property
    def epsilon(self) -> float:
        """The largest ℓ1 distortion that it may cause."""

    def initial(self, classes: int) -> Any:
        """Its state before the first query; None for a defence without a state."""

    def __call__(self, predictions: Predictions, state: Any = None, inputs: torch.Tensor | None = None) -> Units:
        """The answers, (n, classes). Rows are answered in order; a state is only ever appended to."""
