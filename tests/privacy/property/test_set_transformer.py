"""The set transformer: attention as torch computes it, and an answer that does not depend on the order."""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention

from modelkeep.privacy.property.set_transformer import Attention, InducedAttention, Pooling, SetTransformer


def test_attention_is_torchs_own_with_the_scale_of_the_whole_width() -> None:
    torch.manual_seed(0)
    block = Attention(5, 7, width=12, heads=3)
    q, k = torch.randn(2, 4, 5), torch.randn(2, 6, 7)
    query, key, value = (
        layer(x).view(2, -1, 3, 4).transpose(1, 2) for layer, x in ((block.query, q), (block.key, k), (block.value, k))
    )
    mixed = query + scaled_dot_product_attention(query, key, value, scale=12**-0.5)
    joined = mixed.transpose(1, 2).reshape(2, 4, 12)
    torch.testing.assert_close(block(q, k), joined + torch.relu(block.out(joined)))


def test_the_sizes_are_those_of_appendix_d() -> None:
    network = SetTransformer(64, 14)
    assert [type(part) for part in network.encoder] == [InducedAttention, InducedAttention]
    assert isinstance(network.pool, Pooling)
    assert network.pool.seeds.shape == (1, 8, 128)
    assert network.among_seeds.heads == 4


def test_the_order_of_a_set_makes_no_difference_and_its_elements_do() -> None:
    torch.manual_seed(0)
    network = SetTransformer(6, 3).double()
    x = torch.randn(2, 9, 6, dtype=torch.float64)
    turned = x[:, torch.randperm(9)]
    torch.testing.assert_close(network(turned), network(x))
    other = x.clone()
    other[:, 0] += 1
    assert not torch.allclose(network(other), network(x))
