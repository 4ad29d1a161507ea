"""MAD, maximising angular deviation (Orekondy et al. 2020; appendix B.2): answers that lead a thief astray."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.errors import ModelError, bad_parameter
from modelkeep.guard.defences.angle import turn
from modelkeep.guard.defences.inputs import queries
from modelkeep.guard.grid import Predictions, Units, budget
from modelkeep.model import Model


@dataclass(frozen=True)
class MAD:
    """Maximise ‖Gᵀŷ/‖Gᵀŷ‖ − Gᵀy/‖Gᵀy‖‖² under the constraints of section 3.2, G the Jacobian of log f_sur(x; w).

    The `surrogate` stands for the thief's network: one with random weights, such as `untrained(model, seed)`. A query
    costs a pass through it forth and C back, and as much memory as C times its weights. Up to `exact` classes the
    optimum is found (8 classes: some milliseconds, and six times longer for each class more); above, a good vertex.
    """

    surrogate: Model
    epsilon: float = 1.0
    exact: int = 8

    name = "mad"
    keeps_top = True
    needs_inputs = True

    def __post_init__(self) -> None:
        budget(self.epsilon)
        if not 0 <= self.exact <= 10:
            raise bad_parameter("MAD", "exact", "between 0 and 10 classes, with millions of vertices", self.exact)

    def initial(self, classes: int) -> None:
        """It has no state."""

    def __call__(self, predictions: Predictions, state: None = None, inputs: torch.Tensor | None = None) -> Units:
        asked = queries("MAD", self.surrogate, predictions, inputs)
        allowed = predictions.allowed(self.epsilon)
        answers = np.empty_like(predictions.units)
        for row in range(len(predictions)):
            one = slice(row, row + 1)
            if row == 0 or not torch.equal(asked[row], asked[row - 1]):  # an attacker's table holds a query many times
                gram = gradients_gram(self.surrogate, asked[one])[None]
            answers[one] = turn(predictions.units[one], predictions.labels[one], allowed[one], gram, self.exact)
        return answers


def gradients_gram(surrogate: Model, x: torch.Tensor) -> NDArray[np.float64]:
    """G Gᵀ `(classes, classes)` for one query `x: (1, *input_shape)`: all that the angle depends on.

    >>> surrogate = Model(torch.nn.Linear(1, 2, bias=False), input_shape=(1,), classes=2, bounds=None)
    >>> torch.nn.init.zeros_(surrogate.module.weight).tolist()
    [[0.0], [0.0]]
    >>> gradients_gram(surrogate, torch.tensor([[2.0]]))  # each gradient is (e_k − f) x, and f is uniform
    array([[ 2., -2.],
           [-2.,  2.]])
    """
    x = surrogate.checked(x)
    surrogate.require_eval()
    weights = {name: weight.detach().requires_grad_() for name, weight in surrogate.module.named_parameters()}
    logits = torch.func.functional_call(surrogate.module, weights, (surrogate.preprocess(x),))
    each = torch.eye(len(surrogate.classes), dtype=logits.dtype, device=logits.device)
    logs = logits.log_softmax(dim=1)[0]
    rows = torch.autograd.grad(logs, tuple(weights.values()), each, is_grads_batched=True, allow_unused=True)
    gram = torch.zeros(len(each), len(each), dtype=torch.float64, device=logits.device)
    for row in rows:
        if row is not None:
            gram += row.flatten(1).double() @ row.flatten(1).double().T
    if not gram.isfinite().all():
        raise ModelError("The surrogate's gradients are not finite. Are its weights damaged?")
    found: NDArray[np.float64] = gram.cpu().numpy()
    return found
