"""An encrypted input gets the integer network's own scores."""

from __future__ import annotations

import pytest
import torch

from encrypt.functional.test_group import TOY
from modelkeep.core.errors import AccessError, InputError
from modelkeep.encrypt.functional.authority import Authority
from modelkeep.encrypt.functional.inference import FirstLayerServer
from modelkeep.encrypt.functional.scheme import Ciphertext
from modelkeep.encrypt.integers.network import Encoder, IntegerLayer, IntegerNetwork
from modelkeep.encrypt.integers.ring import Ring
from modelkeep.encrypt.integers.table import Table


def network(units: int) -> IntegerNetwork:
    random = torch.Generator().manual_seed(0)
    first = torch.randint(-3, 4, (units, 6), generator=random)
    second = torch.randint(-3, 4, (3, units), generator=random)
    table = Table.of(lambda sums: sums.clamp(0, 7), bits=9)
    layers = (
        IntegerLayer(first, torch.arange(units) - 2, table),
        IntegerLayer(second, torch.tensor([1, -1, 0])),
    )
    return IntegerNetwork(Encoder(torch.zeros(6), torch.ones(6), 7), layers, Ring(9))


def test_the_scores_are_those_of_the_inputs_in_the_clear() -> None:
    authority = Authority(6, group=TOY)
    server = FirstLayerServer(network(4), authority)
    public = authority.public_key()
    rows = torch.randint(0, 8, (5, 6), generator=torch.Generator().manual_seed(1))
    sealed = [public.encrypt(row) for row in rows.tolist()]
    assert torch.equal(server.scores(sealed), server.network.scores(rows))
    assert torch.equal(server.first_sums(sealed), rows @ server.network.layers[0].weight.T)


def test_a_first_layer_as_wide_as_the_input_is_refused() -> None:
    with pytest.raises(AccessError, match="solves for every input"):
        FirstLayerServer(network(8), Authority(6, group=TOY))


def test_what_is_no_ciphertext_is_refused() -> None:
    server = FirstLayerServer(network(4), Authority(6, group=TOY))
    with pytest.raises(InputError, match="Number 0"):
        server.scores([Ciphertext(0, (1,) * 6)])
