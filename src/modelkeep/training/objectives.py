"""Objective: what a training makes small. A plain function is one; a class may add state or its own gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch.nn.functional import cross_entropy as _cross_entropy

from modelkeep.core.model import Model
from modelkeep.training.schedules import Step

Metrics = Mapping[str, torch.Tensor]
Loss = torch.Tensor | tuple[torch.Tensor, Metrics]
"""A scalar to differentiate, alone or with named scalars whose means go into the history."""


class GradientFunction(Protocol):
    """A step's work on a batch, or on a `share` of it: gradients are added up, the values are this part's own."""

    def __call__(
        self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step, share: float = 1.0, /
    ) -> dict[str, torch.Tensor]: ...


class Objective(Protocol):
    """The mean loss of a batch `x: (n, ...)`, `y: (n,)`. The loop differentiates it.

    The model is in train mode; `model.forward(x)` gives its logits. What the objective draws at random it draws
    from `step.generator`, on the model's device. `step.index` finds what it knows about each example (soft labels,
    weights). A name for checkpoints may be given as `name`.
    """

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step, /) -> Loss: ...


@runtime_checkable
class OwnGradients(Protocol):
    """An objective that does the backward pass itself, such as per-example clipping in private training.

    It leaves the gradient in `.grad` of every parameter that requires one and returns the loss. The batch may be
    empty under Poisson sampling.
    """

    def gradients(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step, /) -> Loss: ...


@runtime_checkable
class Stateful(Protocol):
    """An objective that remembers something from step to step; its tensors and JSON values are checkpointed."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any], /) -> None: ...


@runtime_checkable
class Watchful(Protocol):
    """An objective that looks at the training from time to time, and can tell that it goes wrong.

    It looks after a step's gradients are there, with what it draws at random from `step.generator`.
    """

    def look(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step, /) -> Metrics:
        """Named scalars for the history; none at most steps."""
        ...

    def warning(self, metrics: Mapping[str, float], /) -> str:
        """What to say of the means since the last evaluation; empty where nothing is wrong."""
        ...


def cross_entropy(model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
    """The mean cross-entropy of the labels: standard training."""
    return _cross_entropy(model.forward(x), y)


@dataclass(frozen=True)
class SoftAnswers:
    """The cross-entropy of a teacher's answers to the data, under the softmax at a `temperature`.

    `answers: (n, classes)` are probabilities, or ones and zeros for mere labels. `teacher` says whose they are, and
    `made_for` is the fingerprint of the data that they belong to: `fit` refuses any other.
    """

    answers: torch.Tensor = field(repr=False, compare=False)
    teacher: str
    made_for: str
    temperature: float = 1.0

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        answers = self.answers[step.index].to(model.device, model.dtype)
        return _cross_entropy(model.forward(x) / self.temperature, answers)


def name_of(objective: Objective | OwnGradients) -> str:
    """How checkpoints and results call the objective: its `name`, its values, or where it is defined."""
    named = getattr(objective, "name", None)
    if isinstance(named, str):
        return named
    if is_dataclass(objective):
        return repr(objective)
    defined = objective if hasattr(objective, "__qualname__") else type(objective)
    return f"{defined.__module__}.{defined.__qualname__}"


def gradients_of(objective: Objective | OwnGradients) -> GradientFunction:
    """A step's work: adds the objective's gradient to the parameters'; the loss and the metrics, by name."""
    own = isinstance(objective, OwnGradients)
    loss_of = objective.gradients if isinstance(objective, OwnGradients) else objective

    def differentiate(
        model: Model, x: torch.Tensor, y: torch.Tensor, step: Step, share: float = 1.0
    ) -> dict[str, torch.Tensor]:
        if not own and len(x) == 0:  # Poisson sampling may draw no example, and then there is no mean
            return {"loss": torch.zeros((), device=model.device)}
        found = loss_of(model, x, y, step)
        loss, metrics = found if isinstance(found, tuple) else (found, {})
        if not own:
            torch.autograd.backward(loss if share == 1.0 else loss * share)
        if isinstance(objective, Watchful):
            metrics = {**metrics, **objective.look(model, x, y, step)}
        return {"loss": loss.detach(), **{name: value.detach() for name, value in metrics.items()}}

    return differentiate
