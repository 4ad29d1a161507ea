"""Knowledge: what an attacker who adapts to the defence knows when the answers are in (Tang2024, section 2)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from modelkeep.attack.transfer.proxy import Interface
from modelkeep.core.errors import InputError, Remedy
from modelkeep.guard.defence import Defence
from modelkeep.guard.grid import confidences, snap


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What the attacker knows when the answers are in.

    `questions: (n, ...)`; `labels: (n,)` what the query set itself says of them, or the target's labels where it has
    other classes; `defence` and its `state` where they are known; `clean: (n, classes)` the clean predictions, which
    only the evaluator of a defence has (Tang2024, remark 5).
    """

    target: Interface
    questions: torch.Tensor
    labels: torch.Tensor
    seed: int
    defence: Defence | None = None
    state: Any = None
    clean: torch.Tensor | None = None

    @property
    def nothing_is_hidden(self) -> bool:
        """Whether the answers are the clean predictions, because the defence has no budget to move them."""
        return self.defence is not None and self.defence.epsilon == 0

    def perturbation(self) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        """p: what the defence would have answered to clean predictions, at inputs where it looks at them.

        It goes on from a copy of the state, so that the target's own stays as it was.
        """
        defence, state = self.defence, copy.deepcopy(self.state)
        if defence is None:
            raise InputError(
                "This attack must know the defence:",
                remedy=Remedy(
                    "give defence=…, NoDefence() where there is none.", "give --defence, or `none` where there is none."
                ),
            )

        def perturbed(clean: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
            answers = defence(snap(clean.numpy()), state, inputs if defence.needs_inputs else None)
            return torch.from_numpy(confidences(answers))

        return perturbed
