"""Tokenizers: a vocabulary of words learned from texts, and the tokenizers of Hugging Face."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch

from modelkeep.core.errors import DataError, MissingExtra, bad_parameter
from modelkeep.core.tokenizer import CONTINUES, Tokenizer

if TYPE_CHECKING:
    import tokenizers

_KIND = "modelkeep words"
_PADDING, _UNKNOWN = "[PAD]", "[UNK]"
# A word with its apostrophe ("don't"), a number, or one sign.
_WORD = re.compile(r"\w+(?:'\w+)?|[^\w\s]")
# How other tokenizers mark the beginning of a word: byte-level BPE and SentencePiece.
_BEGINNINGS = ("Ġ", "▁")
# What most Hugging Face checkpoints name their padding.
_PADDINGS = ("[PAD]", "<pad>", "<|endoftext|>")


@dataclass(frozen=True)
class WordTokenizer:
    """Lower-case words and signs, each with a number; 0 is padding and 1 any word that is not known.

    >>> tokenizer = WordTokenizer.learn(["A good film.", "A bad film."], length=5)
    >>> tokenizer.encode(["a good car"])["input_ids"]
    tensor([[3, 6, 1, 0, 0]])
    >>> tokenizer.decode([3, 6, 1, 0, 0])
    ['a', 'good', '[UNK]', '[PAD]', '[PAD]']
    """

    words: tuple[str, ...]
    length: int = 256

    def __post_init__(self) -> None:
        if self.length < 1:
            raise bad_parameter("WordTokenizer", "length", "at least 1", self.length)
        if len(set(self.words)) != len(self.words):
            raise DataError("Each word of a WordTokenizer must be there once.")

    @classmethod
    def learn(cls, texts: Iterable[str], *, size: int = 20_000, length: int = 256) -> Self:
        """The `size - 2` commonest words of the texts; of equally common ones, the first in the alphabet."""
        if size < 3:
            raise bad_parameter("WordTokenizer.learn", "size", "at least 3", size)
        counts = Counter(word for text in texts for word in _WORD.findall(text.lower()))
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        return cls(tuple(ranked[: size - 2]), length)

    @property
    def size(self) -> int:
        """The number of different ids."""
        return len(self.words) + 2

    @property
    def special(self) -> frozenset[int]:
        """Padding and the unknown word."""
        return frozenset((0, 1))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words, start=2)}

    def encode(self, texts: Sequence[str]) -> dict[str, torch.Tensor]:
        """`input_ids` and `attention_mask`, both `(n, length)`."""
        ids = torch.zeros(len(texts), self.length, dtype=torch.int64)
        mask = torch.zeros_like(ids)
        for row, text in enumerate(texts):
            found = [self._numbers.get(word, 1) for word in _WORD.findall(text.lower())[: self.length]]
            ids[row, : len(found)] = torch.tensor(found, dtype=torch.int64)
            mask[row, : max(len(found), 1)] = 1  # a text without words is one pad: a mask of zeros has no mean
        return {"input_ids": ids, "attention_mask": mask}

    def decode(self, ids: Sequence[int]) -> list[str]:
        """The word of each id."""
        names = (_PADDING, _UNKNOWN, *self.words)
        return [names[number] for number in ids]

    def to_json(self) -> str:
        """All of it as JSON."""
        return json.dumps({"kind": _KIND, "length": self.length, "words": self.words}, ensure_ascii=False)


class HuggingFaceTokenizer:
    """A fast tokenizer of Hugging Face, from its `tokenizer.json`."""

    def __init__(self, text: str, *, length: int = 256) -> None:
        if length < 3:
            raise bad_parameter("HuggingFaceTokenizer", "length", "at least 3 (a start, a word, an end)", length)
        self._inner = _build(text)
        self._inner.enable_truncation(length)
        self._padding = _padding(self._inner)
        self._inner.enable_padding(
            length=length, pad_id=self._padding, pad_token=self._inner.id_to_token(self._padding)
        )
        self.length = length
        added = self._inner.get_added_tokens_decoder()
        self.special = frozenset(number for number, token in added.items() if token.special) | {self._padding}

    @property
    def size(self) -> int:
        """The number of different ids."""
        return int(self._inner.get_vocab_size())

    def encode(self, texts: Sequence[str]) -> dict[str, torch.Tensor]:
        """`input_ids` and `attention_mask`, both `(n, length)`."""
        found = self._inner.encode_batch(list(texts))
        ids = torch.tensor([each.ids for each in found], dtype=torch.int64).reshape(-1, self.length)
        mask = torch.tensor([each.attention_mask for each in found], dtype=torch.int64).reshape(-1, self.length)
        return {"input_ids": ids, "attention_mask": mask}

    def decode(self, ids: Sequence[int]) -> list[str]:
        """The piece of each id, in WordPiece's form whatever the tokenizer's own is."""
        return [self._piece(number) for number in ids]

    def to_json(self) -> str:
        """The tokenizer.json; it names the length, too."""
        return str(self._inner.to_str())

    @cached_property
    def _marks_beginnings(self) -> bool:
        """Whether the vocabulary marks where a word begins, and not where one goes on."""
        return any(token.startswith(_BEGINNINGS) for token in self._inner.get_vocab(with_added_tokens=False))

    def _piece(self, number: int) -> str:
        piece = self._inner.id_to_token(number)
        if piece is None:
            raise DataError(f"The tokenizer has ids 0 to {self.size - 1}. Got {number}.")
        if number in self.special or not self._marks_beginnings:
            return str(piece)
        return str(piece[1:]) if piece.startswith(_BEGINNINGS) else f"{CONTINUES}{piece}"


def read_tokenizer(source: str | Path, *, length: int | None = None) -> Tokenizer:
    """The tokenizer in a JSON file: ours, or a `tokenizer.json` of Hugging Face, cut to `length` ids.

    Without `length` it is the one that the file names, else 256.
    """
    path = Path(source).expanduser()
    path = path / "tokenizer.json" if path.is_dir() else path
    try:
        return parse_tokenizer(path.read_text(encoding="utf-8"), length=length)
    except OSError as error:
        raise DataError(f"There is no tokenizer at {path}: {error.strerror}.") from error
    except DataError as error:
        raise DataError(f"{path} is not a tokenizer: {error}") from error


def parse_tokenizer(text: str, *, length: int | None = None) -> Tokenizer:
    """The tokenizer that `to_json` wrote, or a tokenizer.json of Hugging Face."""
    try:
        found: Any = json.loads(text)
    except ValueError as error:
        raise DataError(f"It is no JSON: {error}.") from error
    if not isinstance(found, dict):
        raise DataError("It should be a JSON object, as Hugging Face's tokenizer.json is.")
    if found.get("kind") == _KIND:
        return WordTokenizer(tuple(map(str, found["words"])), length or int(found["length"]))
    if length is None:
        length = int((found.get("truncation") or {}).get("max_length") or 256)
    return HuggingFaceTokenizer(text, length=length)


def _build(text: str) -> tokenizers.Tokenizer:
    try:
        import tokenizers
    except ImportError as error:
        raise MissingExtra("text", "tokenizers", "Reading a tokenizer of Hugging Face") from error
    try:
        return tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the package raises bare Exceptions
        raise DataError(f"Hugging Face's tokenizers cannot read it: {error}.") from error


def _padding(inner: tokenizers.Tokenizer) -> int:
    numbers = (inner.token_to_id(name) for name in _PADDINGS)
    found = next((number for number in numbers if number is not None), None)
    if found is None:
        raise DataError(f"It has no token for padding. It should have one of {', '.join(_PADDINGS)}.")
    return int(found)
