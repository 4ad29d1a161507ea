"""Attacks: how to ask, what to make of the answers, how to learn from them (Tang2024, section 4.1, appendix B.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch.nn.functional import one_hot

from modelkeep.core.method import declaration_of, declare, setting
from modelkeep.extract.knowledge import Knowledge
from modelkeep.extract.target import Target
from modelkeep.training import Augmentation

_CROPS = Augmentation(flip=True, shift=0.125)  # 4 of 32 pixels, as crops after padding are usually drawn


@runtime_checkable
class RemembersAnswers(Protocol):
    """A target that keeps its answers, and asks the same question again only on request."""

    def again(self, x: torch.Tensor, repetition: int) -> torch.Tensor: ...


class Attack:
    """How a thief asks, recovers and learns: this one asks once and takes the answers as they are.

    A subclass is declared in the family "extraction". `rotations` says whether S4L's self-supervised loss is added to
    the learning.
    """

    rotations = False

    @property
    def name(self) -> str:
        """Its name in the registry; of an attack that is not declared, its class."""
        own = declaration_of(self)
        return own.name if own is not None else type(self).__name__

    @property
    def table_source(self) -> str | None:
        """Around what an attack of Tang2024, equation 21, draws its table; "clean" only an evaluator can."""
        return None

    def ask(self, target: Target, x: torch.Tensor, seed: int) -> torch.Tensor:
        """The answers `(n, classes)` of a target to `x: (n, ...)`. All randomness comes from the seed."""
        return target.probs(x)

    def recover(self, answers: torch.Tensor, knowledge: Knowledge) -> torch.Tensor:
        """Recovered predictions `(n, classes)`, ỹ = r(ŷ), of answers `(n, classes)`."""
        return answers


@declare("extraction", "naive", extra="guard", access="scores", paper="Orekondy2019")
class Naive(Attack):
    """Learns from the answers as they are."""


@declare("extraction", "top-1", extra="guard", access="labels", paper="Tang2024, section 4.1")
class LabelsOnly(Attack):
    """Learns from the labels only, which most guards leave as they are."""

    def ask(self, target: Target, x: torch.Tensor, seed: int) -> torch.Tensor:
        """The labels. The rest is dropped at once, so that a strategy that looks at answers does not see it either."""
        answers = target.probs(x)
        return one_hot(answers.argmax(dim=1), answers.shape[1]).to(answers.dtype)


@declare("extraction", "s4l", extra="guard", access="scores", paper="Jagielski2020; Tang2024, appendix B.1")
class S4L(Attack):
    """Also learns by how much its questions were turned."""

    rotations = True


@declare(
    "extraction", "repeated", extra="guard", access="scores", paper="Tang2024, table 6", also=("2-qpi",), kw_only=False
)
class Repeated(Attack):
    """Asks the whole set several times, one time after the other, and averages."""

    times: int = setting("Queries per image.", default=2, at_least=1)

    def ask(self, target: Target, x: torch.Tensor, seed: int) -> torch.Tensor:
        """The mean answer."""
        rounds = [target.probs(x)]
        for repetition in range(1, self.times):
            again = target.again(x, repetition) if isinstance(target, RemembersAnswers) else target.probs(x)
            rounds.append(again)
        return torch.stack(rounds).mean(dim=0)


@declare(
    "extraction", "smoothing", extra="guard", access="scores", paper="Lukas2022; Tang2024, appendix B.1", kw_only=False
)
class Smoothing(Attack):
    """Averages the answers to changed copies of each image: cropped at random after padding, and flipped."""

    copies: int = setting("Copies of each image.", default=3, at_least=1)
    augmentation: Augmentation = setting("How a copy is changed.", default=_CROPS)

    def ask(self, target: Target, x: torch.Tensor, seed: int) -> torch.Tensor:
        """The mean answer to the copies."""
        generator = torch.Generator().manual_seed(seed)
        changed = (self.augmentation(x, target.bounds, generator) for _ in range(self.copies))
        return torch.stack([target.probs(each) for each in changed]).mean(dim=0)


@declare("extraction", "neighbours", extra="guard", access="scores", kw_only=False)
class Neighbours(Attack):
    """Averages the answers to each input with noise on it, which lie on both sides of a quantiser's borders."""

    times: int = setting("Queries per input.", default=100, at_least=1)
    deviation: float = setting("The noise's standard deviation, in the units of the inputs.", default=0.05, above=0)

    def ask(self, target: Target, x: torch.Tensor, seed: int) -> torch.Tensor:
        """The mean answer to the input and its neighbours."""
        generator = torch.Generator().manual_seed(seed)
        told = [target.probs(x)]
        for _ in range(1, self.times):
            moved = x + self.deviation * torch.randn(x.shape, generator=generator).to(x)
            told.append(target.probs(moved if target.bounds is None else moved.clamp(*target.bounds)))
        return torch.stack(told).mean(dim=0)


@dataclass(frozen=True)
class Combined(Attack):
    """Asks as one attack does and recovers as another: `Combined(Repeated(2), PartialBayes(), rotations=True)`."""

    asking: Attack
    recovery: Attack
    rotations: bool = False

    @property
    def name(self) -> str:
        """The names of its parts."""
        return f"{self.asking.name} + {self.recovery.name}"

    @property
    def table_source(self) -> str | None:
        """That of the recovery."""
        return self.recovery.table_source

    def ask(self, target: Target, x: torch.Tensor, seed: int) -> torch.Tensor:
        """As `asking` does."""
        return self.asking.ask(target, x, seed)

    def recover(self, answers: torch.Tensor, knowledge: Knowledge) -> torch.Tensor:
        """As `recovery` does."""
        return self.recovery.recover(answers, knowledge)
