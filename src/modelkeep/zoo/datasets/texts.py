"""Texts with labels, before a tokenizer makes numbers of them."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from modelkeep.core.data import Data
from modelkeep.core.errors import DataError
from modelkeep.core.tokenizer import Tokenizer, nest_of
from modelkeep.zoo.datasets.tables import number_classes
from modelkeep.zoo.tokenizers import WordTokenizer

_BLANKS = re.compile(r"\s+")
_LONGEST = 1 << 24  # characters of one text in a CSV file


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

    def split(self, *shares: float, seed: int = 0) -> tuple[Texts, ...]:
        """Disjoint random parts, as `Data.split` makes them."""
        numbers = Data(torch.arange(len(self), dtype=torch.float32)[:, None], self.y, self.classes, self.name)
        return tuple(self.take(part.x[:, 0].long()) for part in numbers.split(*shares, seed=seed))

    def encode(self, tokenizer: Tokenizer) -> Data:
        """The texts as a model with this tokenizer takes them."""
        nest = nest_of(tokenizer)
        x = nest.pack(tokenizer.encode(self.texts))
        return Data(x, self.y, self.classes, self.name, self.source, nest=nest, tokenizer=tokenizer)

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


def read_texts(path: Path, *, text: str = "text", label: str = "label", positive: str | None = None) -> Texts:
    """The texts of a `.csv` with a header line, or of a `.jsonl` with an object on each line.

    The label `positive`, if one is named, becomes class 1, and all others class 0.
    """
    if path.suffix not in (".csv", ".jsonl"):
        raise DataError(f"Texts are read from .csv and .jsonl files. Got {path.name}.")
    rows = _csv_rows(path) if path.suffix == ".csv" else _json_rows(path)
    if not rows:
        raise DataError(f"{path.name} holds no texts.")
    texts, labels = [], []
    for number, row in enumerate(rows, start=1):
        if missing := [name for name in (text, label) if row.get(name) in (None, "")]:
            columns = ", ".join(map(str, row))
            raise DataError(
                f"Row {number} of {path.name} has nothing in the column '{missing[0]}'. Its columns: {columns}. "
                f"Name the column of the text with text={text!r} (--text), that of the class with label={label!r} "
                "(--label)."
            )
        texts.append(str(row[text]))
        labels.append(str(row[label]))
    levels = sorted(set(labels), key=lambda name: (0, int(name), "") if name.isdecimal() else (1, 0, name))
    classes, numbers = number_classes(levels, positive, f"'{label}' of '{path.name}'")
    y = torch.tensor([numbers[name] for name in labels], dtype=torch.int64)
    return Texts(tuple(texts), y, classes, path.stem, str(path.resolve()))


def _csv_rows(path: Path) -> list[dict[str, Any]]:
    csv.field_size_limit(_LONGEST)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return list(csv.DictReader(file, strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as CSV: {error}.") from error


def _json_rows(path: Path) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise DataError(f"Line {number} of {path.name} is no JSON: {error}.") from error
        if not isinstance(row, dict):
            raise DataError(f"Line {number} of {path.name} should be a JSON object. Got {type(row).__name__}.")
        rows.append(row)
    return rows
