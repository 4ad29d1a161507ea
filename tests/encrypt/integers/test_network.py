"""Integer networks against an evaluation with Python's integers, number by number."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from modelkeep.core.errors import InputError
from modelkeep.encrypt.integers.network import Encoder, IntegerLayer, IntegerNetwork
from modelkeep.encrypt.integers.ring import Ring
from modelkeep.encrypt.integers.table import Table


def brute_force(network: IntegerNetwork, row: list[int]) -> list[int]:
    """The scores of one row, with Python's integers and without torch's arithmetic."""
    bits = network.ring.bits
    for layer in network.layers:
        sums = []
        for weights, bias in zip(layer.weight.tolist(), layer.bias.tolist(), strict=True):
            exact = (sum(w * x for w, x in zip(weights, row, strict=True)) + bias) % 2**bits
            sums.append(exact - 2**bits if exact >= 2 ** (bits - 1) else exact)
        if layer.table is None:
            row = sums
        else:
            entries, dropped = layer.table.entries.tolist(), layer.table.dropped
            row = [entries[(each // 2**dropped) % len(entries)] for each in sums]
    return row


@st.composite
def networks(draw: st.DrawFn) -> IntegerNetwork:
    """Random networks whose sums wrap often."""
    bits = draw(st.integers(3, 12))
    widths = draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    seed = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    layers = []
    for number, (before, after) in enumerate(pairwise(widths)):
        table = None
        if number < len(widths) - 2:
            read = draw(st.integers(2, bits))
            dropped = draw(st.integers(0, read - 1))
            table = Table(read, torch.randint(-40, 40, (1 << (read - dropped),), generator=seed), dropped)
        weight = torch.randint(-(2**20), 2**20, (after, before), generator=seed)
        layers.append(IntegerLayer(weight, torch.randint(-99, 99, (after,), generator=seed), table))
    return IntegerNetwork(Encoder(torch.zeros(widths[0]), torch.ones(widths[0]), 15), tuple(layers), Ring(bits))


@settings(max_examples=60, deadline=None)
@given(networks(), st.data())
def test_torch_and_python_agree_bit_for_bit(network: IntegerNetwork, data: st.DataObject) -> None:
    width = len(network.encoder.low)
    rows = data.draw(st.lists(st.lists(st.integers(0, 15), min_size=width, max_size=width), min_size=1, max_size=3))
    assert network.scores(torch.tensor(rows)).tolist() == [brute_force(network, row) for row in rows]


@settings(max_examples=60, deadline=None)
@given(networks())
def test_no_input_goes_beyond_the_reach(network: IntegerNetwork) -> None:
    layer, (low, high) = network.layers[0], network.reaches()[0]
    width = len(network.encoder.low)
    corners = torch.cartesian_prod(*[torch.tensor([0, 15])] * width).reshape(-1, width)
    sums = corners @ layer.weight.T + layer.bias
    assert (sums.min().item(), sums.max().item()) == (low, high)  # a linear function is extreme at a corner


def test_wrapped_sums_are_counted() -> None:
    layer = IntegerLayer(torch.tensor([[1], [5]]), torch.tensor([0, 0]))
    network = IntegerNetwork(Encoder(torch.zeros(1), torch.ones(1), 3), (layer,), Ring(4))
    assert network.count_wrapped(torch.tensor([[1], [2], [3]])) == 2  # 10 and 15 leave -8 … 7
    assert not network.never_wraps
    assert IntegerNetwork(network.encoder, (layer,), Ring(5)).never_wraps


def test_bad_input_is_refused() -> None:
    encoder = Encoder(torch.zeros(2), torch.ones(2), 3)
    with pytest.raises(InputError, match=r"takes 2 features\. Got 3"):
        encoder(torch.zeros(1, 3))
    with pytest.raises(InputError, match="finite"):
        encoder(torch.tensor([[0.0, float("nan")]]))
    layer = IntegerLayer(torch.ones(1, 3, dtype=torch.int64), torch.zeros(1, dtype=torch.int64))
    with pytest.raises(InputError, match="Layer 1 takes 3 integers, and is given 2"):
        IntegerNetwork(encoder, (layer,), Ring(4))
