"""Quantities of interest: what is to be explained, as a number computed from the logits (thesis 002, 3.2.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from modelkeep.model import Model

Score = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Maps logits `(n, classes)` and the labels `(n,)` predicted for the explained points to one number each, `(n,)`.

The labels are handed in because a distribution of interest leaves the explained point: on the line from a baseline,
"the predicted class" still means the class of the point, not the class of wherever the line has come to.
"""


class Quantity(Protocol):
    """Anything that can be explained. `score` looks the names up, so that a wrong one is refused before the work."""

    def score(self, model: Model) -> Score: ...


@dataclass(frozen=True)
class PredictedScore:
    """The logit of the class that the model predicts for each explained point."""

    def score(self, model: Model) -> Score:
        return lambda logits, predicted: logits.gather(1, predicted[:, None])[:, 0]

    def __str__(self) -> str:
        return "predicted class"


@dataclass(frozen=True)
class ClassScore:
    """The logit of one class: why `name`?"""

    name: str

    def score(self, model: Model) -> Score:
        label = model.class_index(self.name)
        return lambda logits, _: logits[:, label]

    def __str__(self) -> str:
        return f"class '{self.name}'"


@dataclass(frozen=True)
class Contrast:
    """The difference of two logits: why `name` rather than `against`?"""

    name: str
    against: str

    def score(self, model: Model) -> Score:
        label, other = model.class_index(self.name), model.class_index(self.against)
        return lambda logits, _: logits[:, label] - logits[:, other]

    def __str__(self) -> str:
        return f"class '{self.name}' rather than '{self.against}'"


@dataclass(frozen=True)
class OfLogits:
    """Any differentiable `function` of the logits, `(n, classes)` to `(n,)`; `name` is what results call it."""

    name: str
    function: Callable[[torch.Tensor], torch.Tensor]

    def score(self, model: Model) -> Score:
        return lambda logits, _: self.function(logits)

    def __str__(self) -> str:
        return self.name
