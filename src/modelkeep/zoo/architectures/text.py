"""Networks for texts: they take token ids and their mask, `input_ids` and `attention_mask`, both `(n, length)`."""

from __future__ import annotations

import torch
from torch import nn

from modelkeep.core.errors import bad_parameter


class MaskedMean(nn.Module):
    """The mean of the states `(n, length, width)` over the positions that the mask names: padding does not count."""

    def forward(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The mean state of each text, `(n, width)`."""
        weights = mask.to(states.dtype)[:, :, None]
        return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp_min(1)


class TextLSTM(nn.Module):
    """Embedding, one LSTM from left to right, the mean of its states, logits.

    It reads in one direction only, so that the padding at the end changes nothing that counts.
    """

    def __init__(self, vocabulary: int, classes: int, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, hidden, batch_first=True)
        self.mean = MaskedMean()
        self.dropout = nn.Dropout(dropout)
        self.logits = nn.Linear(hidden, classes)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """The logits `(n, classes)`."""
        states, _ = self.lstm(self.embedding(input_ids))
        logits: torch.Tensor = self.logits(self.dropout(self.mean(states, attention_mask)))
        return logits


class TextTransformer(nn.Module):
    """Embedding of words and positions, encoder layers, the mean of the states, logits."""

    def __init__(self, vocabulary: int, length: int, classes: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(0.02 * torch.randn(length, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.mean = MaskedMean()
        self.logits = nn.Linear(width, classes)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """The logits `(n, classes)`."""
        states = self.embedding(input_ids) + self.positions
        padding = attention_mask == 0
        for layer in self.layers:
            states = layer(states, src_key_padding_mask=padding)
        logits: torch.Tensor = self.logits(self.mean(self.norm(states), attention_mask))
        return logits


def text_lstm(vocabulary: int, classes: int, width: int = 64, hidden: int = 64, dropout: float = 0.3) -> nn.Module:
    """An embedding and an LSTM.

    >>> module = text_lstm(100, 2)
    >>> module(torch.tensor([[5, 6, 0]]), torch.tensor([[1, 1, 0]])).shape
    torch.Size([1, 2])
    """
    _check("text_lstm", vocabulary=vocabulary, classes=classes, width=width, hidden=hidden)
    return TextLSTM(vocabulary, classes, width, hidden, dropout)


def text_transformer(
    vocabulary: int, length: int, classes: int, width: int = 64, heads: int = 4, layers: int = 2
) -> nn.Module:
    """A small transformer for texts of `length` ids.

    >>> module = text_transformer(100, 3, 2)
    >>> module(torch.tensor([[5, 6, 0]]), torch.tensor([[1, 1, 0]])).shape
    torch.Size([1, 2])
    """
    _check("text_transformer", vocabulary=vocabulary, length=length, classes=classes, width=width, layers=layers)
    if heads < 1 or width % heads:
        raise bad_parameter("text_transformer", "heads", f"a divisor of the width {width}", heads)
    return TextTransformer(vocabulary, length, classes, width, heads, layers)


def _check(factory: str, **sizes: int) -> None:
    for name, size in sizes.items():
        if size < (2 if name == "classes" else 1):
            raise bad_parameter(factory, name, f"at least {2 if name == 'classes' else 1}", size)
