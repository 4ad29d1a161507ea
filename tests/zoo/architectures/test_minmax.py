"""MinMax sorts pairs of neighbours and loses nothing."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from modelkeep.zoo.architectures import MinMax


@given(pairs=st.integers(1, 6), spatial=st.sampled_from([(), (3,), (2, 4)]), seed=st.integers(0, 99))
def test_it_is_a_descending_sort_of_each_pair(pairs: int, spatial: tuple[int, ...], seed: int) -> None:
    x = torch.randn(3, 2 * pairs, *spatial, generator=torch.Generator().manual_seed(seed))
    expected = torch.cat([part.sort(dim=1, descending=True).values for part in x.chunk(pairs, dim=1)], dim=1)
    assert torch.equal(MinMax()(x), expected)


@given(seed=st.integers(0, 99))
def test_it_keeps_the_norm_of_every_gradient(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(4, 8, generator=random, requires_grad=True)
    sent = torch.randn(4, 8, generator=random)
    (received,) = torch.autograd.grad(MinMax()(x), x, sent)
    assert torch.equal(received.sort(dim=1).values, sent.sort(dim=1).values)


def test_it_gives_the_same_with_and_without_gradients_and_keeps_the_norm_at_ties() -> None:
    x = torch.tensor([[1.0, 2.0, 5.0, 5.0, -3.0, -4.0]], requires_grad=True)
    sorted_pairs = MinMax()(x)
    with torch.no_grad():
        assert torch.equal(MinMax()(x), sorted_pairs)
    sent = torch.arange(6.0)[None]
    (received,) = torch.autograd.grad(sorted_pairs, x, sent)
    assert sorted(received[0].tolist()) == sent[0].tolist()
