"""Tokenizer: what turns texts into the token ids that a model takes, and ids back into words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol, runtime_checkable

import torch

from modelkeep.core.nest import Leaf, Nest

CONTINUES = "##"
"""How a piece begins that continues the word before it, as in WordPiece: "token", "##izer"."""


@runtime_checkable
class Tokenizer(Protocol):
    """Texts to ids of one length, and ids to the pieces of words that they stand for.

    A class of this form belongs to a model: the same word must be the same number next time. `to_json` gives all of it
    as text, which is kept beside the model.
    """

    @property
    def size(self) -> int:
        """The number of different ids."""
        ...

    @property
    def length(self) -> int:
        """The number of ids of one text; longer texts are cut, shorter ones are padded."""
        ...

    @property
    def special(self) -> frozenset[int]:
        """The ids that stand for no word: padding, start, end, unknown. No attack changes them or puts them in."""
        ...

    def encode(self, texts: Sequence[str]) -> dict[str, torch.Tensor]:
        """`input_ids` and `attention_mask`, both `(n, length)` int64; the mask is 0 where a text is padded."""
        ...

    def decode(self, ids: Sequence[int]) -> list[str]:
        """The piece of a word for each id, in the same order; a piece that continues a word begins with `##`."""
        ...

    def to_json(self) -> str:
        """The whole tokenizer as JSON, from which it can be read again."""
        ...


def nest_of(tokenizer: Tokenizer) -> Nest:
    """The tensors that a model with this tokenizer takes: `Model(module, inputs=nest_of(tokenizer), …)`."""
    shape = (tokenizer.length,)
    return Nest((Leaf("input_ids", shape, "token", tokenizer.size), Leaf("attention_mask", shape, "mask")))


def word_spans(pieces: Sequence[str]) -> list[tuple[int, int]]:
    """Where each word begins and ends: pieces that continue a word belong to it.

    >>> word_spans(["a", "token", "##izer"])
    [(0, 1), (1, 3)]
    """
    starts = [i for i, piece in enumerate(pieces) if i == 0 or not piece.startswith(CONTINUES)]
    return list(pairwise([*starts, len(pieces)]))


def word_changes(tokenizer: Tokenizer, before: Sequence[int], after: Sequence[int]) -> list[tuple[str, str]]:
    """The words of two texts side by side, without special tokens: `(word before, word after)`, mostly the same."""
    pieces, others = tokenizer.decode(before), tokenizer.decode(after)
    shown = [number not in tokenizer.special or number != other for number, other in zip(before, after, strict=True)]
    spans = [(a, b) for a, b in word_spans(pieces) if any(shown[a:b])]
    return [(join_pieces(pieces[a:b]), join_pieces(others[a:b])) for a, b in spans]


def join_pieces(pieces: Sequence[str]) -> str:
    """The pieces of one word as the word.

    >>> join_pieces(["token", "##izer"])
    'tokenizer'
    """
    return "".join(piece.removeprefix(CONTINUES) if i else piece for i, piece in enumerate(pieces))
