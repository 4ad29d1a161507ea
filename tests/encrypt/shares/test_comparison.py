"""The sign of shared numbers against the sign of the numbers, for every number of a small ring and at the edges."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from modelkeep.encrypt.shares.computation import Computation, Shared
from modelkeep.encrypt.shares.keys import Keys
from modelkeep.encrypt.shares.local import Local
from modelkeep.encrypt.shares.ring import ShareRing


def _signs(ring: ShareRing, words: Tensor) -> tuple[Tensor, Local]:
    here = Local(ring, Keys.draw())

    def program(c: Computation) -> Shared:
        zero = c.share(0, words.shape, torch.zeros(words.shape))
        rows = torch.cat([words[None], torch.zeros((2, *words.shape), dtype=torch.int64)])
        return c.negative(Shared(ring.reduce(zero.words + rows[: len(zero.words)]), 0, ring))

    return ring.reduce(here.run(program).words.sum(dim=0)), here


@pytest.mark.parametrize("bits", [2, 5, 8])
def test_every_number_of_a_small_ring(bits: int) -> None:
    words = torch.arange(2**bits).repeat(50)
    found, _ = _signs(ShareRing(bits, 0), words)
    assert torch.equal(found, words >> (bits - 1))


def test_large_numbers_edges_and_what_crosses() -> None:
    words = torch.randint(-(2**63), 2**63 - 1, (2000,))
    words[:5] = torch.tensor([0, -1, 1, 2**63 - 1, -(2**63)])
    found, here = _signs(ShareRing(), words)
    assert torch.equal(found, (words < 0).long())
    assert here.traffic.rounds == 2 + 6
    assert here.traffic.opened == 6 * 8 * len(words) * (1 + 2 * 6 + 1)
    assert here.traffic.dealt == 8 * len(words) * (1 + 2 * 6 + 1)
