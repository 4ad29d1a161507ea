"""Inference with an encrypted input: the first layer under functional encryption, the rest in the clear.

The server learns the sums of the first layer, by design, and from them the answer. Of the input it learns what those
sums tell; see `Authority`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from modelkeep.core import progress
from modelkeep.encrypt.functional.authority import Authority
from modelkeep.encrypt.functional.group import Group
from modelkeep.encrypt.functional.scheme import Ciphertext, FunctionKey, decrypt, require_elements
from modelkeep.encrypt.integers.network import IntegerNetwork


class FirstLayerServer:
    """Answers encrypted inputs with an integer network. It holds one key per unit of the first layer, and no other.

    >>> from modelkeep.encrypt.integers.network import Encoder, IntegerLayer
    >>> from modelkeep.encrypt.integers.ring import Ring
    >>> layer = IntegerLayer(torch.tensor([[1, 2, 3]]), torch.tensor([5]))
    >>> network = IntegerNetwork(Encoder(torch.zeros(3), torch.ones(3), 15), (layer,), Ring(8))
    >>> authority = Authority(3)
    >>> server = FirstLayerServer(network, authority)
    >>> server.scores([authority.public_key().encrypt([4, 0, 2])])
    tensor([[15]])
    """

    def __init__(self, network: IntegerNetwork, authority: Authority) -> None:
        self.network, self._group = network, authority.group
        first = network.layers[0]
        self._keys = authority.keys(first.weight)
        # The sums without the bias, over all inputs that the encoder can make.
        self._bound = max(abs(each) for each in first.without_bias().reach(0, network.encoder.levels))

    def first_sums(self, inputs: Sequence[Ciphertext]) -> torch.Tensor:
        """What the server learns of each input: the inner products with the first layer's weights, `(n, units)`."""
        for each in inputs:
            require_elements(self._group, each)
        return inner_products(self._group, self._keys, inputs, self._bound)

    def scores(self, inputs: Sequence[Ciphertext]) -> torch.Tensor:
        """The scores `(n, classes)`: the same integers as the network gives for the inputs in the clear."""
        first = self.network.layers[0]
        sums = self.network.ring.wrap(self.first_sums(inputs) + first.bias)
        return self.network.scores_behind(1, sums if first.table is None else first.table(sums))


def inner_products(group: Group, keys: Sequence[FunctionKey], inputs: Sequence[Ciphertext], bound: int) -> torch.Tensor:
    """Every key on every ciphertext, `(inputs, keys)`."""
    with progress.task("decrypt inner products", total=len(inputs) * len(keys)) as task:
        rows = []
        for each in inputs:
            rows.append([decrypt(group, key, each, bound) for key in keys])
            task.advance(len(keys))
    return torch.tensor(rows, dtype=torch.int64).reshape(len(inputs), len(keys))
