"""Case: a batch of examples under attack, and all that an attack's inner loop may ask about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

import torch

from modelkeep.attack.health import Health
from modelkeep.core.access import Labels, Weights
from modelkeep.core.norms import Ball

# Covariant: a search that asks for scores only can be given a case with the weights.
View = TypeVar("View", bound=Labels, covariant=True)


class Search(Protocol):
    """The inner loop of an attack with its settings: the attack itself, or a frozen dataclass that it makes.

    It gets a `Case` with the view that it `sees` (weights, scores or labels) and returns an input for each example:
    the best that it found. `carry_out` puts them into the ball, verifies them in a fresh pass, and takes the original
    where the search failed.
    """

    @property
    def title(self) -> str: ...

    @property
    def sees(self) -> type[Labels]: ...

    def search(self, case: Case[Weights], /) -> torch.Tensor: ...


def wrongness(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """u = log Σ exp of the other logits, minus the label's `(n,)`: the cross-entropy is log(1 + exp u).

    It rises in the very same direction, but its gradient neither rounds nor underflows to zero where the network is
    sure.
    """
    label = labels[:, None]
    return logits.scatter(1, label, -torch.inf).logsumexp(dim=1) - logits.gather(1, label)[:, 0]


@dataclass(frozen=True)
class Target:
    """The class that the answer should become, where it differs from example to example."""

    name: str
    of: Callable[[torch.Tensor], torch.Tensor]
    """From the clean logits `(n, classes)` to the wanted labels `(n,)`."""


LEAST_LIKELY = Target("the least likely class", lambda logits: logits.argmin(dim=1))


@dataclass(frozen=True)
class Case(Generic[View]):
    """A batch under attack: `n` originals, what is wanted of each, and how far it may be moved.

    `goal` is the label that the answer should lose or, where `targeted`, get. `allowed` is True where the input may
    change (None: everywhere). `generator` is the only randomness. `index` says which examples of the data these are.
    Of a `random` model the view gives the mean over several draws.
    """

    view: View
    original: torch.Tensor
    goal: torch.Tensor
    targeted: bool
    ball: Ball
    allowed: torch.Tensor | None
    generator: torch.Generator
    index: torch.Tensor
    health: Health = field(default_factory=Health)
    random: bool = False

    def __len__(self) -> int:
        return len(self.original)

    def part(self, chosen: torch.Tensor) -> Case[View]:
        """The case of some of the examples; `chosen` are positions or a mask."""
        return replace(
            self,
            original=self.original[chosen],
            goal=self.goal[chosen],
            allowed=None if self.allowed is None else self.allowed[chosen],
            index=self.index[chosen.cpu()],
        )

    def inside(self, x: torch.Tensor) -> torch.Tensor:
        """`x` put back into what is allowed: the mask, the ball and the bounds."""
        if self.allowed is not None:
            x = torch.where(self.allowed, x, self.original)
        return self.ball.project(x, self.original)

    def gradient(
        self: Case[Weights], x: torch.Tensor, value: Callable[[torch.Tensor], torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The gradient of `value(logits): (n,)` at `x`, zero where nothing may change, and the logits.

        NaN and infinity become finite numbers; `health` has seen them before if the search shows it the first step's.
        """
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            logits = self.view.forward(x)
            (gradient,) = torch.autograd.grad(value(logits).sum(), x)
        self.health.gradients += len(x)
        return (gradient if self.allowed is None else gradient * self.allowed), logits.detach()

    def gain(self, logits: torch.Tensor) -> torch.Tensor:
        """How far the wanted answer is ahead, smoothly `(n,)`."""
        return -wrongness(logits, self.goal) if self.targeted else wrongness(logits, self.goal)

    def lead(self, logits: torch.Tensor) -> torch.Tensor:
        """How far the wanted answer is ahead of the best other one `(n,)`; above 0 it is given."""
        wanted = logits.gather(1, self.goal[:, None])[:, 0]
        lead = wanted - logits.scatter(1, self.goal[:, None], -torch.inf).amax(dim=1)
        return lead if self.targeted else -lead

    def answered(self, labels: torch.Tensor) -> torch.Tensor:
        """Whether these labels are what is wanted, for a search that sees nothing else."""
        return labels == self.goal if self.targeted else labels != self.goal

    def reached(self, logits: torch.Tensor) -> torch.Tensor:
        """Whether the wanted answer leads by more than rounding: another batch rounds otherwise, and takes it back.

        No logits at all are a wrong answer. In a ball, a random model is never done with: what is answered wrongly
        half of the time can be answered wrongly more often.
        """
        if self.random and self.ball.radius is not None:
            return torch.zeros(len(logits), dtype=torch.bool, device=logits.device)
        reached = self.lead(logits) > 1e-4 * logits.abs().amax(dim=1)
        return reached if self.targeted else reached | ~torch.isfinite(logits.amax(dim=1))
