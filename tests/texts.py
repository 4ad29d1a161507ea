"""A text classifier that is small enough to know all about: the mean of the words' values decides."""

from __future__ import annotations

import torch
from torch import nn

from modelkeep import Data, Model
from modelkeep.core.tokenizer import nest_of
from modelkeep.zoo.architectures import text_lstm
from modelkeep.zoo.architectures.text import MaskedMean
from modelkeep.zoo.datasets import Texts
from modelkeep.zoo.tokenizers import WordTokenizer

VALUES = {"awful": -3.0, "bad": -2.0, "dull": -1.0, "the": -0.1, "film": 0.1, "fine": 1.0, "good": 2.0, "great": 3.0}
TOKENIZER = WordTokenizer(tuple(VALUES), length=5)
SENTENCES = ("the film fine", "the good film good", "bad film", "the film awful fine", "great great great great great")


class MeanValue(nn.Module):
    """Each word has a value; the sign of the mean is the class."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(VALUES) + 2, 1)
        self.embedding.weight.data = torch.tensor([0.0, 0.0, *VALUES.values()])[:, None]
        self.mean = MaskedMean()

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        value = self.mean(self.embedding(input_ids), attention_mask)
        return torch.cat([-value, value], dim=1)


def sentiment() -> Model:
    """The model whose answers can be computed by hand."""
    return Model(MeanValue(), inputs=nest_of(TOKENIZER), classes=("negative", "positive"))


def lstm() -> Model:
    """An untrained LSTM over the same words."""
    torch.manual_seed(0)
    arguments = {"vocabulary": TOKENIZER.size, "classes": 2, "width": 6, "hidden": 6}
    return Model(
        text_lstm(TOKENIZER.size, 2, 6, 6),
        inputs=nest_of(TOKENIZER),
        classes=("negative", "positive"),
        architecture="modelkeep.architectures:text_lstm",
        arguments=arguments,
    )


def sentences(model: Model, texts: tuple[str, ...] = SENTENCES) -> Data:
    """Texts with the labels that the model gives them."""
    data = Texts(texts, torch.zeros(len(texts), dtype=torch.int64), model.classes).encode(TOKENIZER)
    return Data(data.x, model.predict(data.x), model.classes, nest=data.nest, tokenizer=TOKENIZER)
