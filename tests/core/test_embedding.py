"""The embedding of a text model is found by what enters it, not by its name."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Leaf, Model, Nest
from modelkeep.core.embedding import find_embedding
from modelkeep.core.errors import InputError
from modelkeep.zoo.architectures import minilm
from texts import lstm


class Shared(nn.Module):
    """Two embeddings of the same ids: neither is the one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Embedding(9, 2), nn.Embedding(9, 2)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        mean: torch.Tensor = (self.first(input_ids) + self.second(input_ids)).mean(dim=1)
        return mean


def test_words_and_not_positions() -> None:
    sizes = {
        "vocab_size": 9,
        "hidden_size": 4,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "intermediate_size": 4,
    }
    nest = Nest((Leaf("input_ids", (3,), "token", 9), Leaf("attention_mask", (3,), "mask")))
    bert = Model(minilm(2, sizes=sizes), inputs=nest, classes=2)
    assert find_embedding(bert) == "body.embeddings.word_embeddings"
    assert find_embedding(lstm()) == "embedding"


def test_what_is_not_clear_is_an_error() -> None:
    model = Model(Shared(), inputs=Nest((Leaf("input_ids", (3,), "token", 9),)), classes=2)
    with pytest.raises(InputError, match=r"should enter one nn\.Embedding of the network\. They enter first, second"):
        find_embedding(model)
    with pytest.raises(InputError, match="this model takes none"):
        find_embedding(Model(nn.Linear(2, 2), input_shape=(2,), classes=2))
