"""Words: texts as pages show them, each word coloured by how much it speaks for a quantity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from modelkeep.core.data import Data
from modelkeep.core.tokenizer import word_changes
from modelkeep.explain import Explained
from modelkeep.report.page import Table

_FOR, _AGAINST = "201, 71, 65", "55, 131, 187"  # the red and blue of all signed bars


@dataclass(frozen=True)
class TextWords:
    """One text: its words and, for each quantity, how much each word speaks for it."""

    words: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]

    def shades(self, quantity: int, largest: float) -> list[tuple[str, float, str]]:
        """Each word with its value and its background: red speaks for the quantity, blue against it."""
        return [
            (word, value, shade(value, largest)) for word, value in zip(self.words, self.values[quantity], strict=True)
        ]


def shade(value: float, largest: float) -> str:
    """The colour of a value, as strong as it is large.

    >>> shade(-0.5, 1.0)
    'rgba(55, 131, 187, 0.50)'
    """
    strength = min(abs(value) / largest, 1.0) if largest > 0 else 0.0
    return f"rgba({_FOR if value > 0 else _AGAINST}, {strength:.2f})"


def texts_of(found: Sequence[Explained]) -> tuple[TextWords, ...]:
    """The explained texts with all quantities; none where the slice has no words."""
    first = found[0]
    if not first.pieces or first.influence.ndim != 3 or first.influence.shape[1] != len(first.pieces[0]):
        return ()
    by_quantity = [explained.words() for explained in found]
    return tuple(
        TextWords(
            tuple(word for word, _ in by_quantity[0][i]),
            tuple(tuple(value for _, value in words[i]) for words in by_quantity),
        )
        for i in range(len(by_quantity[0]))
    )


def read_rows(data: Data, rows: Sequence[int]) -> list[str]:
    """The text of each row as the model reads it, cut to its length; none where the data holds no texts."""
    if data.tokenizer is None or data.nest is None or data.nest.tokens is None:
        return []
    ids = data.nest.unpack(data.rows(rows))[data.nest.tokens.name].tolist()
    return [" ".join(word for word, _ in word_changes(data.tokenizer, each, each)) for each in ids]


def table_of_texts(data: Data, rows: Sequence[int]) -> tuple[Table, ...]:
    """A table of the words of these rows; no table where the data holds no texts."""
    texts = read_rows(data, rows)
    labels = [data.classes[int(data.y[row])] for row in rows]
    cells = [[str(row), label, text] for row, label, text in zip(rows, labels, texts, strict=False)]
    return (Table(cells, header=("row", "class", "its words")),) if cells else ()


def strongest_words(texts: Sequence[TextWords], quantity: int, count: int) -> list[tuple[str, float]]:
    """The words that count most for a quantity: their mean value over where they occur, the largest first."""
    values: dict[str, list[float]] = {}
    for text in texts:
        for word, value in zip(text.words, text.values[quantity], strict=True):
            values.setdefault(word, []).append(value)
    means = {word: sum(each) / len(each) for word, each in values.items()}
    return sorted(means.items(), key=lambda pair: (-abs(pair[1]), pair[0]))[:count]
