"""UPSET: a trained generator makes one perturbation per class that moves any input there (Sarkar2017)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import nn
from torch.nn.functional import cross_entropy, one_hot

from modelkeep.attack.case import Case
from modelkeep.attack.frame import carry_out
from modelkeep.attack.health import NO_GRAPH, Health
from modelkeep.core.access import Labels
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, ModelError
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball
from modelkeep.core.results import Estimate, Result, Tensor, measured
from modelkeep.training import Recipe, Step, fit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECIPE = Recipe(epochs=30, batch_size=64, learning_rate=5e-3)


@dataclass(frozen=True, kw_only=True, eq=False)
class Upset(Result, kind="upset"):
    """One perturbation per target class, and how often each moves held-out examples there.

    `perturbation: (targets, *input_shape)`, none of whose values exceeds `radius`; `success_rate` counts the examples
    that were not answered so before.
    """

    radius: float
    targets: tuple[str, ...]
    success_rate: dict[str, Estimate | None]
    clean_accuracy: Estimate
    health: tuple[str, ...]
    bounds: tuple[float, float] | None
    perturbation: Tensor = field(repr=False)

    def rows(self) -> list[tuple[str, str]]:
        return [
            ("perturbations", f"{len(self.targets)}, each within {self.radius:.3g} in linf"),
            ("accuracy, clean", str(self.clean_accuracy)),
            *((f"towards '{name}'", str(rate or "nothing to attack")) for name, rate in self.success_rate.items()),
            ("health", "; ".join(self.health) or "nothing suspicious"),
        ]

    def draw(self) -> Figure:
        """The perturbations as pictures; for tables, their success rates."""
        from modelkeep.core import plots

        rates = {name: rate for name, rate in self.success_rate.items() if rate is not None}
        if self.perturbation.ndim == 4 and self.perturbation.shape[1] in (1, 3):
            titles = [f"{name}: {rates[name].value:.0%}" if name in rates else name for name in self.targets]
            pictures = 0.5 + self.perturbation / (2 * self.radius)  # grey where nothing is changed
            return plots.image_grid(pictures, titles, columns=min(5, len(titles)))
        return plots.bars(rates, x_label="success rate on held-out examples")


@declare("attack", "upset", access="weights", paper="Sarkar2017")
class UPSET:
    """A generator of one perturbation per class that moves any input there.

    Trains a generator R whose perturbation R(t), added to any input, makes the model answer class t: it minimises the
    cross-entropy of t at clip(x + radius · tanh R(t)) over the examples and the targets.
    """

    cheap: ClassVar[dict[str, Any]] = {"radius": 0.1, "recipe": Recipe(steps=3)}

    radius: float = setting("The largest change of any value, in the units of the data.", above=0, below=math.inf)
    targets: Sequence[str] | None = setting("The classes to move inputs to; without them, all.", default=None)
    recipe: Recipe = setting("How the generator is trained.", default=RECIPE)
    held_out: float = setting(
        "The share of the data that it is not trained on, but judged by.", default=0.3, above=0, below=1
    )
    batch_size: int = setting("Examples that are run at once when it is judged.", default=256, at_least=1)

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Upset:
        """Train the generator on a part of the data and judge it by the rest. The model is left as it was."""
        ball = Ball("linf", self.radius, model.bounds)
        model.require_fit(data)
        x, names = model.check_inputs(data.x), model.classes if self.targets is None else tuple(self.targets)
        chosen = torch.tensor([model.class_index(name) for name in names], dtype=torch.int64)
        if len(data) < 2 or not names:
            raise InputError(f"UPSET needs 2 examples and 1 target at least. Got {len(data)} and {len(names)}.")
        with measured(seed, model.fingerprint(), data.fingerprint()) as provenance, model.frozen(seed):
            size = min(max(1, round(self.held_out * len(data))), len(data) - 1)
            order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
            judged, learnt = data.take(order[:size]), data.take(order[size:])
            flatness = _flatness(model, x[order[size:]][: self.batch_size])
            perturbed = _Perturbed(model.forward, len(model.classes), x[0], ball)
            generator = Model(
                perturbed,
                input_shape=model.input_shape,
                classes=model.classes,
                bounds=model.bounds,
                device=model.device,
            )
            fit(generator, learnt, Towards(chosen), self.recipe, seed=seed)
            with torch.no_grad():
                perturbation = perturbed.perturbation(chosen.to(model.device))
            attacked = {
                name: carry_out(
                    model,
                    judged,
                    [_Added(change)],
                    attack="UPSET",
                    ball=ball,
                    target=name,
                    batch_size=self.batch_size,
                    seed=seed,
                )
                for name, change in zip(names, perturbation, strict=True)
            }
            health = [*flatness.notes(), *(note for found in attacked.values() for note in found.health)]
            return Upset(
                provenance=provenance(),
                radius=self.radius,
                targets=names,
                success_rate={name: found.success_rate for name, found in attacked.items()},
                clean_accuracy=attacked[names[0]].clean_accuracy,
                health=tuple(dict.fromkeys(health)),
                bounds=model.bounds,
                perturbation=perturbation.cpu(),
            )


class _Perturbed(nn.Module):
    """The generator, and in front of the victim: logits of clip(x + radius · tanh R(t)).

    The victim is a plain function here, not a part: the training loop trains the generator and finds nothing else.
    """

    def __init__(self, victim: Callable[[torch.Tensor], torch.Tensor], classes: int, like: torch.Tensor, ball: Ball):
        super().__init__()
        self.victim, self.classes, self.shape, self.dtype, self.ball = victim, classes, like.shape, like.dtype, ball
        self.generator = nn.Sequential(nn.Linear(classes, 128), nn.ReLU(), nn.Linear(128, like.numel())).to(like.dtype)

    def perturbation(self, target: torch.Tensor) -> torch.Tensor:
        """radius · tanh R(t) for the targets `t: (n,)`."""
        seen: torch.Tensor = self.generator(one_hot(target, self.classes).to(self.dtype))
        return self.ball.reach * seen.tanh().view(-1, *self.shape)

    def forward(self, x: torch.Tensor, target: torch.Tensor | None = None) -> torch.Tensor:
        """Towards the targets; without any, the victim's answer to `x` as it is."""
        moved = x if target is None else x + self.perturbation(target)
        return self.victim(moved if self.ball.bounds is None else moved.clamp(*self.ball.bounds))


@dataclass(frozen=True)
class Towards:
    """The cross-entropy of a target drawn from `targets` for each example."""

    targets: torch.Tensor

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        drawn = torch.randint(len(self.targets), y.shape, generator=step.generator, device=y.device)
        target = self.targets.to(y.device)[drawn]
        return cross_entropy(model.module(x, target), target)


@dataclass(frozen=True)
class _Added:
    """The inner loop that is none: the same change for all."""

    change: torch.Tensor
    title: ClassVar[str] = "UPSET"
    sees: ClassVar[type[Labels]] = Labels

    def search(self, case: Case[Labels], /) -> torch.Tensor:
        """The input with the change."""
        return case.inside(case.original + self.change)


def _flatness(model: Model, x: torch.Tensor) -> Health:
    """Whether the model has a gradient for the generator to follow."""
    health, x = Health(), x.detach().requires_grad_()
    with torch.enable_grad():
        logits = model.forward(x)
        if not logits.requires_grad:
            raise ModelError(f"UPSET learns by the gradient, but {NO_GRAPH}. Give bpda(model, place) for that part.")
        health.see_gradient(*torch.autograd.grad(cross_entropy(logits, logits.argmin(dim=1)), x))
    return health
