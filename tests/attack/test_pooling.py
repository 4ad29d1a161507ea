"""The quick pooling has the bits of torch's own, forward and backward, and leaves no trace."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import max_pool2d

from modelkeep import Model
from modelkeep.attack.pooling import pool, quick_pooling


@given(
    seed=st.integers(0, 10**6),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(2, 9), st.integers(2, 9)),
    ties=st.booleans(),
    double=st.booleans(),
)
def test_it_has_torchs_bits(seed: int, shape: tuple[int, ...], ties: bool, double: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator, dtype=torch.float64 if double else torch.float32)
    x = x.round() if ties else x
    pairs = []
    for function in (pool, lambda x: max_pool2d(x, 2)):
        leaf = x.clone().requires_grad_()
        pooled = function(leaf)
        slope = torch.randn(pooled.shape, generator=torch.Generator().manual_seed(seed + 1), dtype=x.dtype)
        if ties:
            slope.view(-1)[0] = torch.inf
        pairs.append((pooled, *torch.autograd.grad(pooled, leaf, slope)))
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*pairs, strict=True))


def test_a_second_derivative_and_torch_func_go_through_it() -> None:
    x = torch.randn(2, 2, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.autograd.gradgradcheck(lambda x: pool(x) ** 2, x.requires_grad_())
    mapped = torch.func.vmap(lambda x: pool(x[None])[0])(x.detach())
    assert torch.equal(mapped, max_pool2d(x.detach(), 2))


def test_only_poolings_of_windows_that_do_not_overlap_are_changed_and_only_for_a_while(small_cnn: Model) -> None:
    network = nn.Sequential(
        small_cnn.module,
        nn.MaxPool2d((2, 2), 2),
        *(nn.MaxPool2d(3, 2), nn.MaxPool2d(2, 1), nn.MaxPool2d(2, padding=1), nn.MaxPool2d(2, ceil_mode=True)),
        nn.MaxPool2d(2, return_indices=True),
    )
    plain, inner = copy.deepcopy(network[0]), network[0]
    assert isinstance(inner, nn.Sequential)
    with quick_pooling(network):
        assert [part.forward is pool for part in list(network)[1:]] == [True, False, False, False, False, False]
        assert inner[2].forward is pool
        with quick_pooling(network):
            assert torch.equal(inner(small_cnn.probe()), plain(small_cnn.probe()))
        assert inner[2].forward is pool
    with pytest.raises(KeyError), quick_pooling(network):
        raise KeyError
    assert all("forward" not in vars(part) for part in network.modules())
