"""Adversarial training: the loss on inputs that an attack has moved, in four forms (Saha2020, eq. 5.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, ClassVar

import torch
from torch.nn.functional import cross_entropy

from modelkeep.attack.case import wrongness
from modelkeep.attack.gradient.ascent import ascend
from modelkeep.core.errors import bad_parameter
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball, Norm
from modelkeep.harden import overfitting
from modelkeep.training import Recipe, Schedule, Step, at


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """An objective that is made for an attacker who may move an input by at most a radius."""

    radius: float | Schedule = setting(
        "How far an attacker may move an input, in the units of the data: a number, or a schedule of them."
    )
    norm: Norm = setting("How a change is measured.", default="linf", choices=("linf", "l2", "l1"))

    def __post_init__(self) -> None:
        if not callable(self.radius) and not 0 < self.radius < math.inf:
            raise bad_parameter(type(self).__name__, "radius", "a number above 0 or a schedule", self.radius)


@dataclass(frozen=True, kw_only=True)
class Adversarial(Bounded):
    """The mean cross-entropy at the worst inputs that a few steps of ascent find within the radius of each example.

    The attack meets the network as it will be deployed, in eval mode: dropout is off, and batch norm neither
    normalises by the batch nor takes the attack's inputs into its statistics. Weight gradients are not computed in it.
    """

    random_start: ClassVar[bool] = True

    @property
    def ascent(self) -> tuple[int, float]:
        """How many steps, and how long each is in radii, so that it follows a radius that is scheduled."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """How checkpoints and results have always called it."""
        steps, stride = self.ascent
        return (
            f"Adversarial(radius={self.radius!r}, norm={self.norm!r}, steps={steps}, stride={stride}, "
            f"random_start={self.random_start})"
        )

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        return cross_entropy(model.forward(self.attack_batch(model, x, y, step)), y)

    def look(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> Mapping[str, torch.Tensor]:
        """Now and then in a training on a single step: how the network does on that step, and on PGD."""
        radius = at(self.radius, step)
        if self.ascent[0] > 1 or radius == 0 or not overfitting.is_time_to_look(step):
            return {}
        x, y = x[: overfitting.LOOKED_AT], y[: overfitting.LOOKED_AT]
        moved = self.attack_batch(model, x, y, step)
        return overfitting.look(model, x, y, moved, Ball(self.norm, radius, model.bounds), step)

    def warning(self, metrics: Mapping[str, float]) -> str:
        """Whether a training on a single step overfits to that step."""
        return overfitting.warning(metrics)

    def attack_batch(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        """The inputs that are trained on, `(n, ...)`; the model is left as it was."""
        radius = at(self.radius, step)
        if radius == 0:  # where a schedule begins
            return x
        steps, stride = self.ascent
        ball = Ball(self.norm, radius, model.bounds)
        # A network that draws random numbers draws other ones here than in the pass that is trained on.
        with model.frozen(step.generator.initial_seed()):
            start = ball.random_point(x, step.generator) if self.random_start else x
            return ascend(
                lambda moved: wrongness(model.forward(moved), y),
                x,
                start,
                ball=ball,
                step_size=stride * radius,
                steps=steps,
            )


@declare("hardening", "pgd", paper="Madry2018; Saha2020, eq. 5.2")
class PGDTraining(Adversarial):
    """Training on PGD from a random start, at steps + 1 times the cost of plain training.

    >>> from torch import nn
    >>> from modelkeep import Data
    >>> from modelkeep.training import fit
    >>> data = Data(torch.eye(4), torch.arange(4) % 2, ("even", "odd"))
    >>> model = Model(nn.Linear(4, 2), input_shape=(4,), classes=data.classes)
    >>> _ = fit(model, data, PGDTraining(radius=0.1), Recipe(steps=3), seed=0)
    """

    steps: int = setting("Steps of the attack, each 2.5 · radius / steps long.", default=10, at_least=1)

    @property
    def ascent(self) -> tuple[int, float]:
        """As usual for PGD."""
        return self.steps, 2.5 / self.steps


@declare("hardening", "fgsm", paper="Goodfellow2015")
class FGSMTraining(Adversarial):
    """Training on one step from the example to the edge of the ball, at twice the cost.

    Known to overfit to its own attack, which then finds nothing while PGD finds everything. The training looks for that
    four times per epoch, and warns.
    """

    random_start: ClassVar[bool] = False

    @property
    def ascent(self) -> tuple[int, float]:
        """One step to the edge."""
        return 1, 1.0


@declare("hardening", "fast", paper="Wong2020")
class FastTraining(Adversarial):
    """Training on one step of 1.25 radii from a random start, at twice the cost: Fast is better than free."""

    @property
    def ascent(self) -> tuple[int, float]:
        """The length that the paper found best."""
        return 1, 1.25


@declare("hardening", "free", paper="Shafahi2019")
class FreeTraining(Bounded):
    """One backward pass moves the weights and the inputs, at the cost of plain training.

    The perturbation is kept from step to step and from batch to batch. Each batch is replayed, so that it can grow on
    the same examples, in as many times fewer epochs. Its pass is the one that is trained on, so the network is in train
    mode.
    """

    replays: int = setting(
        "How often each batch is replayed, where the recipe has no replays of its own.", default=4, at_least=1
    )
    _state: dict[str, torch.Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        """How checkpoints and results have always called it."""
        return f"Free(radius={self.radius!r}, norm={self.norm!r})"

    def adapt(self, recipe: Recipe) -> Recipe:
        """The recipe with replays, in as many times fewer epochs."""
        if recipe.replays != 1:
            return recipe
        return replace(recipe, replays=self.replays, epochs=recipe.epochs and ceil(recipe.epochs / self.replays))

    def gradients(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        """Leave the weights' gradients at the moved inputs, and move on."""
        if step.number == 0:
            self._state.clear()  # of another run
        if len(x) == 0:  # Poisson sampling drew no example
            return torch.zeros((), device=model.device)
        kept = self._keep_rows(x)
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

    def _keep_rows(self, x: torch.Tensor) -> torch.Tensor:
        """The rows of the kept perturbation for this batch, as a view; a first or larger batch gets new ones of 0."""
        kept = (
            self._state.get("perturbation", torch.empty(0)).to(x).view(-1, *x.shape[1:])
        )  # a checkpoint's comes back on the CPU
        self._state["perturbation"] = torch.cat([kept, torch.zeros_like(x[: max(len(x) - len(kept), 0)])])
        return self._state["perturbation"][: len(x)]

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"perturbation": self._state.get("perturbation", torch.empty(0))}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with what a checkpoint kept."""
        self._state["perturbation"] = state["perturbation"]
