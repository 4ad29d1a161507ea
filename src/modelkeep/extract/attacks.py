"""Attacks: how to ask, what to make of the answers, and how to learn from them (section 4.1 and appendix B.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch.nn.functional import one_hot

from modelkeep.core.errors import bad_parameter
from modelkeep.extract.recoveries import Recovery, as_they_are
from modelkeep.extract.target import Target
from modelkeep.training import Augmentation

Asking = Callable[[Target, torch.Tensor, int], torch.Tensor]
"""The answers `(n, classes)` of a target to `x: (n, ...)`; what is drawn at random comes from the seed."""

CROPS = Augmentation(flip=True, shift=0.125)  # 4 of 32 pixels, as crops after padding are usually drawn


@runtime_checkable
class Remembering(Protocol):
    """A target that keeps its answers, and asks the same question again only where it is told to."""

    def again(self, x: torch.Tensor, repetition: int) -> torch.Tensor: ...


def once(target: Target, x: torch.Tensor, seed: int) -> torch.Tensor:
    """Each question once."""
    return target.probs(x)


def only_labels(target: Target, x: torch.Tensor, seed: int) -> torch.Tensor:
    """Each question once, and of its answer only the label, which most defences leave as it is.

    The rest is thrown away at once, so that a strategy that looks at answers on the way does not see it either.
    """
    answers = target.probs(x)
    return one_hot(answers.argmax(dim=1), answers.shape[1]).to(answers.dtype)


@dataclass(frozen=True)
class Repeated:
    """m queries per image: the whole set is asked `times` times, one time after the other, and averaged."""

    times: int = 2

    def __post_init__(self) -> None:
        if self.times < 1:
            raise bad_parameter("Repeated", "times", "at least 1", self.times)

    def __call__(self, target: Target, x: torch.Tensor, seed: int) -> torch.Tensor:
        rounds = [target.probs(x)]
        for repetition in range(1, self.times):
            rounds.append(target.again(x, repetition) if isinstance(target, Remembering) else target.probs(x))
        return torch.stack(rounds).mean(dim=0)


@dataclass(frozen=True)
class Smoothed:
    """The mean answer to `copies` of each image, cropped at random after padding and flipped (Lukas et al.)."""

    copies: int = 3
    augmentation: Augmentation = CROPS

    def __post_init__(self) -> None:
        if self.copies < 1:
            raise bad_parameter("Smoothed", "copies", "at least 1", self.copies)

    def __call__(self, target: Target, x: torch.Tensor, seed: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        changed = (self.augmentation(x, target.bounds, generator) for _ in range(self.copies))
        return torch.stack([target.probs(each) for each in changed]).mean(dim=0)


@dataclass(frozen=True)
class Attack:
    """How a thief asks, recovers and learns; `rotations` adds S4L's self-supervised loss to the learning.

    The paper's attacks are `NAIVE`, `TOP_ONE`, `S4L` and `SMOOTHING`, with `PartialBayes`, `DDAE` and `DDAEPlus` as
    recoveries; they can be combined: `Attack("both", recovery=PartialBayes(), rotations=True)`.
    """

    name: str
    asking: Asking = once
    recovery: Recovery = as_they_are
    rotations: bool = False

    @property
    def means(self) -> str | None:
        """Around what a recovery of equation 21 drew its table: "clean" is an oracle that only an evaluator has."""
        found = getattr(self.recovery, "means", None)
        return found if found is None or isinstance(found, str) else "given"


NAIVE = Attack("naive")
TOP_ONE = Attack("top-1", asking=only_labels)
S4L = Attack("s4l", rotations=True)
SMOOTHING = Attack("smoothing", asking=Smoothed())
