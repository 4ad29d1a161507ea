"""The feed gives the same batches from disk as from memory, in any order of steps, and reads ahead within the run."""

from __future__ import annotations

from contextlib import closing
from typing import Literal

import pytest
import torch

from modelkeep import Data
from modelkeep.core.examples import Stored
from modelkeep.training import Recipe
from modelkeep.training.batches import Batches
from modelkeep.training.feed import Feed


class Elsewhere:
    """Examples that are read from a tensor."""

    source = "a test"

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x
        self.shape = tuple(x.shape)
        self.fingerprints: dict[str, str] = {}

    def rows(self, index: torch.Tensor) -> torch.Tensor:
        return self.x[index]


@pytest.mark.parametrize("sampling", ["shuffle", "poisson"])
def test_the_same_batches_from_disk_and_from_memory(sampling: Literal["shuffle", "poisson"]) -> None:
    x = torch.rand(10, 2, generator=torch.Generator().manual_seed(0))
    y = torch.arange(10) % 2
    recipe = Recipe(epochs=3, batch_size=4, sampling=sampling)
    feeds = []
    for tensor in (x, Stored(Elsewhere(x))):
        batches = Batches(10, recipe, seed=0)
        feeds.append(Feed(Data(tensor, y, ("a", "b")), batches, torch.float64, 9))
    with closing(feeds[1]):
        for step in (0, 1, 2, 5, 6, 7, 8):  # a resumed run begins anywhere
            (one, labels, index), (other, other_labels, other_index) = (feed.batch(step) for feed in feeds)
            assert torch.equal(one, other)
            assert one.dtype == other.dtype == torch.float64
            assert torch.equal(labels, other_labels)
            assert torch.equal(index, other_index)
