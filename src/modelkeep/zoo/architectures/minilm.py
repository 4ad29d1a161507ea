"""MiniLM with a head for classes: Hugging Face's BertModel, the mean of its states, and one or two linear layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from modelkeep.core.errors import MissingExtra, bad_parameter
from modelkeep.zoo.architectures.text import MaskedMean

# What all-MiniLM-L6-v2's config.json says.
_SIZES: dict[str, Any] = {
    "vocab_size": 30_522,
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "max_position_embeddings": 512,
}


class TextEncoder(nn.Module):
    """A BertModel, the mean of its states, a hidden layer (none where `hidden` is 0) and logits."""

    def __init__(self, body: nn.Module, width: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.body = body
        self.mean = MaskedMean()
        self.head = nn.Sequential()
        if hidden:
            self.head.add_module("hidden", nn.Linear(width, hidden))
            self.head.add_module("relu", nn.ReLU())
        self.head.add_module("logits", nn.Linear(hidden or width, classes))

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """The logits `(n, classes)`."""
        states = self.body(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        logits: torch.Tensor = self.head(self.mean(states, attention_mask))
        return logits


def minilm(classes: int, hidden: int = 64, sizes: Mapping[str, Any] | None = None) -> nn.Module:
    """MiniLM with a head of `hidden` units, or with a linear head where that is 0.

    `sizes` are those of Hugging Face's BertConfig where they are others.
    """
    if classes < 2 or hidden < 0:
        raise bad_parameter("minilm", "classes", "at least 2, with no negative number of units", (classes, hidden))
    try:
        from transformers import BertConfig, BertModel
    except ImportError as error:
        raise MissingExtra("text", "transformers", "MiniLM") from error
    # The eager attention is plain operations, which can be traced and cut.
    config = BertConfig(**{**_SIZES, **(sizes or {}), "attn_implementation": "eager"})
    return TextEncoder(BertModel(config, add_pooling_layer=False), config.hidden_size, hidden, classes)
