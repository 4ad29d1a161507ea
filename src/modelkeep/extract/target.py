"""Target: what a thief can ask. A model of one's own, the same behind a defence, or anything that answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import torch
from torch.nn.functional import one_hot

from modelkeep.attack.transfer.proxy import Interface
from modelkeep.core.access import Labels, Scores, check_budget
from modelkeep.core.card import class_names
from modelkeep.core.errors import PredictionError, bad_parameter
from modelkeep.core.model import Model
from modelkeep.guard.defence import Defence
from modelkeep.guard.grid import OFF, confidences, snap

Returns = Literal["probabilities", "logits"]


class Target(Interface, Protocol):
    """Something that answers queries with probabilities and counts them. `modelkeep.core.access.Scores` is one."""

    @property
    def queries(self) -> int:
        """The number of examples that were asked so far."""

    def probs(self, x: torch.Tensor) -> torch.Tensor:
        """Class probabilities `(n, classes)`; one query per example of `x: (n, *input_shape)`."""


class Labelled(Labels):
    """A model that only answers with labels: each answer is a probability of 1 for its label.

    >>> model = Model.answering(lambda x: x.argmax(axis=1), input_shape=(3,), classes=3, gives="labels")
    >>> Labelled(model).probs(torch.eye(3)[:1])
    tensor([[1., 0., 0.]])
    """

    def probs(self, x: torch.Tensor) -> torch.Tensor:
        """The labels as rows `(n, classes)` of zeros and a one; one query per example."""
        return one_hot(self.labels(x), len(self.classes)).float()


def open_target(model: Model) -> Labelled | Scores:
    """A model of one's own as a target: by its scores, or by its labels where it gives no more."""
    return Labelled(model) if model.access == "labels" else Scores(model)


class Guarded(Scores):
    """A model of one's own behind a `defence`, which starts with a fresh `state`.

    >>> from torch import nn
    >>> from modelkeep.guard.defences.top_one import TopOne
    >>> model = Model(nn.Linear(4, 3), input_shape=(4,), classes=3)
    >>> Guarded(model, TopOne()).probs(torch.zeros(1, 4)).sort().values
    tensor([[0., 0., 1.]])
    """

    def __init__(self, model: Model, defence: Defence, *, budget: int | None = None, chunk: int = 512) -> None:
        super().__init__(model, budget=budget, chunk=chunk)
        self.defence = defence
        self.state: Any = defence.initial(len(model.classes))

    def probs(self, x: torch.Tensor) -> torch.Tensor:
        """What the defence lets out: `(n, classes)`, each row exactly on the simplex."""
        clean = super().probs(x).cpu().numpy()
        answers = self.defence(snap(clean), self.state, x if self.defence.needs_inputs else None)
        return torch.from_numpy(confidences(answers))

    def labels(self, x: torch.Tensor) -> torch.Tensor:
        """The labels of what the defence lets out."""
        return self.probs(x).argmax(dim=1)


class Asked:
    """Any function as a target: `ask(x: (n, *input_shape))` gives a row per example.

    `returns` says what a row holds, because it cannot be seen from outside: of a few logits that were taken for
    probabilities one learns nothing, and without a word. What does not look like it says is refused.

    >>> target = Asked(lambda x: x @ torch.eye(3), input_shape=(3,), classes=3, returns="logits")
    >>> target.probs(torch.zeros(1, 3))
    tensor([[0.3333, 0.3333, 0.3333]])
    >>> scaled = Asked(lambda x: 5 * x, input_shape=(3,), classes=3, returns="probabilities")
    >>> scaled.probs(torch.ones(1, 3))  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    PredictionError: Row 0 of 1 sums to 15, so these are not probabilities. If they are logits, say so.
    """

    def __init__(
        self,
        ask: Callable[[torch.Tensor], torch.Tensor],
        *,
        input_shape: Sequence[int],
        classes: Sequence[str] | int,
        returns: Returns,
        bounds: tuple[float, float] | None = (0.0, 1.0),
        budget: int | None = None,
    ) -> None:
        if returns not in ("probabilities", "logits"):
            raise bad_parameter("Asked", "returns", "'probabilities' or 'logits'", returns)
        self._ask = ask
        self.returns: Returns = returns
        self.input_shape = tuple(input_shape)
        self.classes = class_names(classes)
        self.bounds = bounds
        self.dtype, self.device = torch.float32, torch.device("cpu")
        self.budget = budget
        self.queries = 0

    def probs(self, x: torch.Tensor) -> torch.Tensor:
        """The function's answers as probabilities `(n, classes)`."""
        check_budget(self.budget, self.queries, len(x))
        self.queries += len(x)
        return probabilities(self._ask(x), (len(x), len(self.classes)), self.returns)


def probabilities(answers: torch.Tensor, shape: tuple[int, int], returns: Returns = "probabilities") -> torch.Tensor:
    """`answers` as float32 probabilities of this `shape`, or an error that says why they are none."""
    answers = answers.detach().cpu().double()
    if tuple(answers.shape) != shape:
        raise PredictionError(
            f"The target should give a table of {shape}, a row per query. Got {tuple(answers.shape)}."
        )
    finite = answers.isfinite().all(dim=1)
    if not finite.all():
        raise PredictionError(f"Row {int((~finite).int().argmax())} of {len(answers)} holds NaN or infinity.")
    on_simplex = (answers.sum(dim=1) - 1).abs().le(OFF) & (answers >= 0).all(dim=1)
    if returns == "logits":
        if len(answers) > 1 and on_simplex.all():
            raise PredictionError("The target was said to give logits, but every row sums to 1: say probabilities.")
        return answers.softmax(dim=1).float()
    if not on_simplex.all():
        row = int((~on_simplex).int().argmax())
        worst = answers[row]
        what = f"holds {float(worst.min()):.3g}" if worst.min() < 0 else f"sums to {float(worst.sum()):.3g}"
        raise PredictionError(
            f"Row {row} of {len(answers)} {what}, so these are not probabilities. If they are logits, say so."
        )
    return (answers / answers.sum(dim=1, keepdim=True)).float()
