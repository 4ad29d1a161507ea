"""MiniLM's network: Hugging Face's BertModel under our head."""

from __future__ import annotations

import pytest
import torch

from modelkeep.core.errors import InputError
from modelkeep.zoo.architectures import minilm

SMALL = {"vocab_size": 50, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}


def test_the_head_reads_the_mean_of_berts_states() -> None:
    torch.manual_seed(0)
    module = minilm(3, hidden=4, sizes=SMALL).eval()
    ids, mask = torch.tensor([[5, 6, 7, 0], [8, 9, 1, 2]]), torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])
    parts = dict(module.named_children())
    alone = parts["body"](input_ids=ids[:1, :3]).last_hidden_state  # without padding and without a mask
    expected = parts["head"](alone.mean(dim=1))
    torch.testing.assert_close(module(ids, mask)[:1], expected)


def test_a_classifier_has_two_classes() -> None:
    with pytest.raises(InputError, match="'classes' parameter of minilm"):
        minilm(1, sizes=SMALL)
