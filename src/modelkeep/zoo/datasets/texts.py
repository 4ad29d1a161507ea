"""Texts with labels, before a tokenizer makes numbers of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import DataError
from modelkeep.core.tokenizer import Tokenizer
from modelkeep.zoo.tokenizers import WordTokenizer

_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True)
class Texts:
    """Texts with labels `y: (n,)` in `range(len(classes))`."""

    texts: tuple[str, ...]
    y: torch.Tensor
    classes: tuple[str, ...]
    name: str = "texts"
    source: str = "memory"

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        return f"Texts({self.name!r}, n={len(self)}, classes={len(self.classes)})"

    def take(self, index: torch.Tensor | Sequence[int]) -> Texts:
        """The texts at `index`, in that order."""
        chosen = torch.as_tensor(index, dtype=torch.int64)
        return replace(self, texts=tuple(self.texts[i] for i in chosen.tolist()), y=self.y[chosen])

    def split(self, *shares: float, seed: int) -> tuple[Texts, ...]:
        """Disjoint random parts, as `Data.split` makes them."""
        numbers = Data(torch.arange(len(self), dtype=torch.float32)[:, None], self.y, self.classes, self.name)
        return tuple(self.take(part.x[:, 0].long()) for part in numbers.split(*shares, seed=seed))

    def encode(self, tokenizer: Tokenizer) -> Data:
        """The texts as a model with this tokenizer takes them."""
        tensors = tokenizer.encode(self.texts)
        x = torch.cat([tensors["input_ids"], tensors["attention_mask"]], dim=1).float()
        return Data(x, self.y, self.classes, self.name, self.source)

    def learn_tokenizer(self, *, size: int = 20_000, length: int = 256) -> WordTokenizer:
        """A vocabulary of the commonest words of these texts; learn it from the training part alone."""
        return WordTokenizer.learn(self.texts, size=size, length=length)


def collect(pairs: Iterable[tuple[str, str]], classes: Sequence[str] | None = None) -> Texts:
    """Pairs of a text and the name of its class, each text once and with single blanks.

    Repeated texts are left out, so that none is in the train and in the test part. Without `classes` they are the names
    that occur, in alphabetical order.
    """
    labels: dict[str, str] = {}
    for text, label in pairs:
        plain = _BLANKS.sub(" ", text).strip()
        if plain:
            labels.setdefault(plain, label)
    named = tuple(classes) if classes is not None else tuple(sorted(set(labels.values())))
    numbers = {name: number for number, name in enumerate(named)}
    if unknown := sorted(set(labels.values()) - set(named)):
        raise DataError(f"The label '{unknown[0]}' is not among the classes {', '.join(named)}.")
    return Texts(tuple(labels), torch.tensor([numbers[label] for label in labels.values()], dtype=torch.int64), named)
