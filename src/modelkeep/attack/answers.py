"""Answers: what a model says about finished inputs; a random model is asked many times, and each answer counts."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from modelkeep.attack.case import wrongness
from modelkeep.core.model import Model

NO_ANSWER = -1
"""The label of an input on which the logits are NaN or infinite: it is wrong, and no class that can be wanted."""

_ROUNDING = 1e-4  # of the largest logit: how far apart two passes over one input are in batches of other sizes
LOOKED_AT = 32
"""Examples that are enough to see whether a model is random."""


def answers_of(logits: torch.Tensor) -> torch.Tensor:
    """The labels `(n,)`; `NO_ANSWER` where there is no largest finite logit.

    >>> answers_of(torch.tensor([[1.0, 2.0], [torch.nan, 0.0], [-torch.inf, 3.0]])).tolist()
    [1, -1, 1]
    """
    top, labels = logits.max(dim=1)
    return torch.where(torch.isfinite(top), labels, NO_ANSWER)


def bare_logits(model: Model, x: torch.Tensor) -> torch.Tensor:
    """Logits without gradients, of which some may be NaN: on what an attack found, that is an answer too."""
    with torch.no_grad():
        return model.forward(x)


def differ(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two passes gave logits that are further apart than rounding explains."""
    size = torch.nan_to_num(first).abs().amax(dim=1, keepdim=True)
    apart = (torch.nan_to_num(first) - torch.nan_to_num(second)).abs()
    return bool((apart > _ROUNDING * size).any())


def is_random(model: Model, x: torch.Tensor) -> bool:
    """Whether the model answers the same inputs differently; the random state is left as it was."""
    few = model.check_inputs(x[:LOOKED_AT])
    with model.frozen(seed=0):
        return differ(bare_logits(model, few), bare_logits(model, few))


def is_flat(model: Model, x: torch.Tensor) -> bool:
    """Whether the gradient at the input is exactly zero on most of a few examples, or there is none."""
    few = model.check_inputs(x[:LOOKED_AT]).detach().requires_grad_()
    with model.frozen(seed=0), torch.enable_grad():
        logits = model.forward(few)
        if not logits.requires_grad:
            return True
        (slope,) = torch.autograd.grad(wrongness(logits, logits.argmax(dim=1)).sum(), few, allow_unused=True)
    return slope is None or bool((slope.flatten(1) == 0).all(dim=1).double().mean() > 0.5)


@dataclass(frozen=True)
class Answers:
    """How often each answer was given, `counts: (n, classes + 1)`; the last column counts what was no answer."""

    counts: torch.Tensor

    @classmethod
    def once(cls, logits: torch.Tensor) -> Answers:
        """One answer to each input."""
        return cls.of_labels(answers_of(logits), logits.shape[1])

    @classmethod
    def of_labels(cls, labels: torch.Tensor, classes: int) -> Answers:
        """One answer to each input, as labels `(n,)`."""
        return cls(torch.nn.functional.one_hot(labels % (classes + 1), classes + 1))

    @property
    def draws(self) -> int:
        """How often each input was asked."""
        return int(self.counts[0].sum())

    @property
    def labels(self) -> torch.Tensor:
        """The most frequent answer `(n,)`."""
        found = self.counts.argmax(dim=1)
        return torch.where(found == self.counts.shape[1] - 1, NO_ANSWER, found)

    def share(self, labels: torch.Tensor) -> torch.Tensor:
        """How often, from 0 to 1, each answer was the one in `labels: (n,)`."""
        return self.counts.gather(1, labels[:, None])[:, 0].double() / self.counts.sum(dim=1)


def ask(model: Model, x: torch.Tensor, draws: int, batch_size: int) -> Answers:
    """The answers to `x` in `draws` fresh passes."""
    classes = len(model.classes)
    counts = torch.zeros(len(x), classes + 1, dtype=torch.int64, device=x.device)
    for start in range(0, len(x), batch_size):
        part = slice(start, start + batch_size)
        for _ in range(draws):
            counts[part] += Answers.once(bare_logits(model, x[part])).counts
    return Answers(counts)
