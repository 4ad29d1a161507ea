"""The way back: from an input that was found towards its original, as far as the wanted answer holds."""

from __future__ import annotations

import torch

from modelkeep.access import Weights
from modelkeep.attack.ball import per_example
from modelkeep.attack.case import Case


def back_to_the_boundary(
    case: Case[Weights], found: torch.Tensor, *, confidence: float = 0.0, halvings: int = 8
) -> torch.Tensor:
    """The nearest point to the original, on the line from it to `found`, that still counts, by bisection `(n, ...)`.

    Where `found` itself does not count, it comes back as it is. Costs `halvings` forward passes.
    """
    near, far = found.new_zeros(len(found)), found.new_ones(len(found))
    offset = found - case.original
    with torch.no_grad():
        for _ in range(halvings):
            middle = (near + far) / 2
            holds = counts(case, case.view.forward(case.original + per_example(middle, offset) * offset), confidence)
            near, far = torch.where(holds, near, middle), torch.where(holds, middle, far)
    return torch.where(per_example(far < 1, offset), case.original + per_example(far, offset) * offset, found)


def counts(case: Case[Weights], logits: torch.Tensor, confidence: float) -> torch.Tensor:
    """Whether the wanted answer is reached, and leads by `confidence` at least."""
    return case.reached(logits) & (case.lead(logits) >= confidence)
