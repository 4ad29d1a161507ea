"""Adversarial training: the loss on inputs that an attack has moved, in four forms (Saha2020, equation 5.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from modelkeep.attack.case import wrongness
from modelkeep.attack.gradient.ascent import ascend
from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball, Norm
from modelkeep.training import Schedule, Step, at


@dataclass(frozen=True)
class Adversarial:
    """The mean cross-entropy at the worst inputs that `steps` of ascent find within `radius` of each example.

    Made by `pgd_training`, `fgsm_training` or `fast_training`. A step is `stride` radii long, so that it follows a
    radius that is scheduled. The attack meets the network as it will be deployed, in eval mode: dropout is off, and
    batch norm neither normalises by the batch nor takes the attack's inputs into its statistics. Weight gradients
    are not computed in it.
    """

    radius: float | Schedule
    norm: Norm
    steps: int
    stride: float
    random_start: bool

    def __post_init__(self) -> None:
        check_radius(type(self).__name__, self.radius)
        if self.steps < 1:
            raise bad_parameter(type(self).__name__, "steps", "at least 1", self.steps)
        if not 0 < self.stride < math.inf:
            raise bad_parameter(type(self).__name__, "stride", "a number above 0", self.stride)

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        return cross_entropy(model.forward(self.attacked(model, x, y, step)), y)

    def attacked(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        """The inputs that are trained on, `(n, ...)`; the model is left as it was."""
        radius = at(self.radius, step)
        if radius == 0:  # where a schedule begins
            return x
        ball = Ball(self.norm, radius, model.bounds)
        # A network that draws random numbers draws other ones here than in the pass that is trained on.
        with model.frozen(step.generator.initial_seed()):
            start = ball.random_point(x, step.generator) if self.random_start else x
            return ascend(
                lambda moved: wrongness(model.forward(moved), y),
                x,
                start,
                ball=ball,
                step_size=self.stride * radius,
                steps=self.steps,
            )


def pgd_training(radius: float | Schedule, norm: Norm = "linf", *, steps: int = 10) -> Adversarial:
    """Madry2018: PGD from a random start, at `steps` + 1 times the cost of plain training.

    >>> from torch import nn
    >>> from modelkeep import Data
    >>> from modelkeep.training import Recipe, fit
    >>> data = Data(torch.eye(4), torch.arange(4) % 2, ("even", "odd"))
    >>> model = Model(nn.Linear(4, 2), input_shape=(4,), classes=data.classes)
    >>> _ = fit(model, data, pgd_training(0.1), Recipe(steps=3), seed=0)
    """
    return Adversarial(radius, norm, steps, 2.5 / max(steps, 1), random_start=True)


def fgsm_training(radius: float | Schedule, norm: Norm = "linf") -> Adversarial:
    """Goodfellow2015: one step from the example to the edge of the ball, at twice the cost.

    Known to overfit to its own attack, which then finds nothing while PGD finds everything: see the score.
    """
    return Adversarial(radius, norm, 1, 1.0, random_start=False)


def fast_training(radius: float | Schedule, norm: Norm = "linf") -> Adversarial:
    """Wong2020: one step of 1.25 radii from a random start, at twice the cost."""
    return Adversarial(radius, norm, 1, 1.25, random_start=True)


@dataclass
class Free:
    """Shafahi2019, adversarial training for free: one backward pass moves the weights and the inputs.

    The perturbation is kept from step to step and from batch to batch. Give it a recipe with `replays` (4 to 10), so
    that it can grow on the same examples, and with as many times fewer epochs: then it costs as much as plain
    training. Its pass is the one that is trained on, so the network is in train mode.
    """

    radius: float | Schedule
    norm: Norm = "linf"
    _perturbation: torch.Tensor = field(default_factory=lambda: torch.empty(0), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_radius("Free", self.radius)

    def gradients(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        """Leave the weights' gradients at the moved inputs, and move on."""
        if step.number == 0:
            self._perturbation = torch.empty(0)  # of another run
        if len(x) == 0:  # Poisson sampling drew nobody
            return torch.zeros((), device=model.device)
        kept = self._kept(x)
        moved = x + kept
        if model.bounds is not None:
            moved = moved.clamp(*model.bounds)
        loss = cross_entropy(model.forward(moved.requires_grad_()), y)
        loss.backward()  # type: ignore[no-untyped-call]
        radius = at(self.radius, step)
        if radius > 0:
            assert moved.grad is not None
            # Around zero and without the bounds, which belong to an example: the next batch brings others.
            kept.copy_(Ball(self.norm, radius).step(kept, moved.grad, radius, torch.zeros_like(kept)))
        return loss

    def _kept(self, x: torch.Tensor) -> torch.Tensor:
        """The rows of the kept perturbation for this batch, as a view; a first or larger batch gets new ones of 0."""
        kept = self._perturbation.to(x).view(-1, *x.shape[1:])  # a checkpoint's comes back on the CPU
        self._perturbation = torch.cat([kept, torch.zeros_like(x[: max(len(x) - len(kept), 0)])])
        return self._perturbation[: len(x)]

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"perturbation": self._perturbation}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with what a checkpoint kept."""
        self._perturbation = state["perturbation"]


def check_radius(objective: str, radius: float | Schedule) -> None:
    """Refuse a radius that is neither above 0 nor a schedule."""
    if not callable(radius) and not 0 < radius < math.inf:
        raise bad_parameter(objective, "radius", "a number above 0 or a schedule", radius)
