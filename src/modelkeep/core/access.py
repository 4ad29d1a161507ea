"""Access: what a method may see of a model. A view gives no more than its name says, and counts the queries."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from modelkeep.core.black_box import Access, gives_enough, require_access
from modelkeep.core.errors import QueryBudget, bad_parameter
from modelkeep.core.examples import Stored, in_parts
from modelkeep.core.model import Model
from modelkeep.core.registry import declaration_of, declarations


class Labels:
    """Only the predicted labels.

    What is public comes with every view: the shape, type and range of an input, and the classes. `queries` counts
    the examples that were asked; a query beyond the `budget` is refused before anything is asked. Many examples are
    run `chunk` at a time. A `tolerant` view passes on logits that are NaN, where a model is an error otherwise.

    >>> from torch import nn
    >>> view = Labels(Model(nn.Linear(4, 3), input_shape=(4,), classes=3), budget=8)
    >>> view.labels(torch.rand(5, 4)).shape
    torch.Size([5])
    >>> view.labels(torch.rand(5, 4))
    Traceback (most recent call last):
    modelkeep.core.errors.QueryBudget: The budget is 8 queries: 5 are spent, and 5 more were asked for.
    """

    needs: ClassVar[Access] = "labels"

    def __init__(self, model: Model, *, budget: int | None = None, chunk: int = 512, tolerant: bool = False) -> None:
        require_access(model.access, self.needs, f"A view of the {self.needs}")
        if budget is not None and budget < 0:
            raise bad_parameter(type(self).__name__, "budget", "None or a number of queries from 0 on", budget)
        if chunk < 1:
            raise bad_parameter(type(self).__name__, "chunk", "at least 1", chunk)
        self._model = model
        self._chunk = chunk
        self._tolerant = tolerant
        self._queries = 0
        self.budget = budget
        self.input_shape = model.input_shape
        self.classes = model.classes
        self.bounds = model.bounds
        self.nest = model.nest
        self.dtype = model.dtype
        self.device = model.device

    @property
    def queries(self) -> int:
        """The number of examples that were asked so far."""
        return self._queries

    def labels(self, x: torch.Tensor) -> torch.Tensor:
        """Predicted labels `(n,)`; one query per example of `x: (n, *input_shape)`."""
        return self._logits(x).argmax(dim=1)

    def _logits(self, x: torch.Tensor) -> torch.Tensor:
        if not isinstance(x, Stored):  # what is stored is checked part by part
            x = self._model.check_inputs(x)
        self._spend(len(x))
        if not self._tolerant:
            return torch.cat([self._model.logits(part) for part in in_parts(x, self._chunk)])
        with torch.no_grad():
            return torch.cat([self._model.forward(part) for part in in_parts(x, self._chunk)])

    def _spend(self, count: int) -> None:
        check_budget(self.budget, self._queries, count)
        self._queries += count

    def __repr__(self) -> str:
        of = "" if self.budget is None else f" of {self.budget}"
        return f"{type(self).__name__}({self._queries}{of} queries)"


class Scores(Labels):
    """The probabilities of all classes, and so the labels."""

    needs: ClassVar[Access] = "scores"

    def probs(self, x: torch.Tensor) -> torch.Tensor:
        """Class probabilities `(n, classes)`; one query per example of `x: (n, *input_shape)`."""
        return self._logits(x).softmax(dim=1)


class Logits(Scores):
    """The logits, and so the probabilities: of a sure model these round to 0 and 1, where the logits still differ.

    They are scores, but no model that only answers is known to give them: they need the network.
    """

    needs: ClassVar[Access] = "weights"

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """Logits `(n, classes)`; one query per example of `x: (n, *input_shape)`."""
        return self._logits(x)


class Weights(Logits):
    """Everything: the model itself. Passes through `forward` are counted, what is done with `model` is not."""

    needs: ClassVar[Access] = "weights"

    @property
    def model(self) -> Model:
        """The model."""
        return self._model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits `(n, classes)` with gradients and without checks; one query per example."""
        self._spend(len(x))
        return self._model.forward(x)


def check_budget(budget: int | None, spent: int, more: int) -> None:
    """Refuse queries beyond a budget, before anything is asked."""
    if budget is not None and spent + more > budget:
        raise QueryBudget(f"The budget is {budget} queries: {spent} are spent, and {more} more were asked for.")


def needs_more(method: object, model: Any) -> bool:
    """Whether a method is declared to see more of a model than the model gives."""
    own = declaration_of(method)
    if own is None or not own.access or not isinstance(model, Model):
        return False
    return not gives_enough(model.access, own.access)  # type: ignore[arg-type]


def check_access(method: object, model: Any) -> None:
    """Refuse a model that does not give what the method is declared to need, and name what works instead."""
    own = declaration_of(method)
    if own is None or not needs_more(method, model):
        return
    known = [each for each in declarations(own.family).values() if each.access]
    working = [each.name for each in known if gives_enough(model.access, each.access)]  # type: ignore[arg-type]
    found = f"of the family '{own.family}', these work with it: {', '.join(working)}"
    instead = f" Instead, {found}." if working else f" Nothing of the family '{own.family}' works with it."
    require_access(model.access, own.access, type(method).__name__, instead)  # type: ignore[arg-type]
