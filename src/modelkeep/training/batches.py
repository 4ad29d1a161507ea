"""Batches: which examples each step sees, and every seed of a run, as pure functions of (seed, step)."""

from __future__ import annotations

from hashlib import blake2b
from math import ceil

import torch

from modelkeep.training.recipe import Recipe


def derive_seed(seed: int, purpose: str, *counters: int) -> int:
    """A seed for one purpose at one moment. Nothing is carried along, so a resumed run has nothing to replay.

    >>> derive_seed(0, "order", 1) == derive_seed(0, "order", 2)
    False
    """
    text = f"{seed}/{purpose}/{counters}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def part_seed(seed: int, step: int, part: int) -> int:
    """The seed of one micro-batch of a step, from the run's seed for that purpose.

    The CPU's generator takes the low 32 bits of a seed only, so those must differ between the parts. Steps differ by 1.

    >>> part_seed(7, 3, 0)
    10
    >>> part_seed(7, 3, 1) % 2**32 == part_seed(7, 3, 2) % 2**32
    False
    """
    return derive_seed(seed + step, "part", part) if part else seed + step


def parts_of(batch: torch.Tensor, parts: int) -> tuple[torch.Tensor, ...]:
    """The micro-batches of a batch, of nearly the same size; no more of them than there are examples."""
    if parts == 1:  # tensor_split alone would take longer than all else that the loop adds to a step
        return (batch,)
    return batch.tensor_split(max(1, min(parts, len(batch))))


class Batches:
    """The order in which a run sees the `n` examples of its data."""

    def __init__(self, n: int, recipe: Recipe, seed: int) -> None:
        self._n, self._recipe, self._seed = n, recipe, seed
        self._generator = torch.Generator()
        self._epoch = -1
        self._parts: tuple[torch.Tensor, ...] = ()
        self._in_epoch = ceil(n / recipe.batch_size)
        self.per_epoch = self._in_epoch * recipe.replays

    def index(self, step: int) -> torch.Tensor:
        """The examples of the batch of a step."""
        batch = step // self._recipe.replays
        if self._recipe.sampling == "poisson":
            self._generator.manual_seed(derive_seed(self._seed, "poisson", batch))
            chosen = torch.rand(self._n, generator=self._generator) < self._recipe.batch_size / self._n
            return torch.nonzero(chosen).flatten()
        epoch, place = divmod(batch, self._in_epoch)
        if epoch != self._epoch:
            self._generator.manual_seed(derive_seed(self._seed, "order", epoch))
            order = torch.randperm(self._n, generator=self._generator)
            self._parts = torch.split(order, self._recipe.batch_size)
            self._epoch = epoch
        return self._parts[place]

    def augment(self, x: torch.Tensor, step: int, bounds: tuple[float, float] | None) -> torch.Tensor:
        """The batch of a step as the recipe's augmentation changes it; a replay is changed in the same way."""
        assert self._recipe.augmentation is not None
        self._generator.manual_seed(derive_seed(self._seed, "augmentation", step // self._recipe.replays))
        return self._recipe.augmentation(x, bounds, self._generator)
