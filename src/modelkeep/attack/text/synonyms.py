"""Words that stand near a word in a public embedding: MiniLM's, which knows nothing of the attacked model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch

from modelkeep.attack.text.base import Vocabulary
from modelkeep.core.tokenizer import Tokenizer

_LONGEST_WORD = 12  # word pieces, with a start and an end


def nearest_words(
    tokenizer: Tokenizer, ids: Sequence[int], *, count: int, similarity: float, size: int | None = None
) -> dict[int, list[int]]:
    """For each of `ids`, up to `count` other words of the tokenizer, the nearest first, by the cosine of their vectors.

    Only whole words of at least this `similarity`. A neighbour is used in the same places; it may still mean the
    opposite, as good and bad do.
    """
    known = Vocabulary.of(tokenizer, size or tokenizer.size)
    words = torch.nonzero(known.is_word).flatten()
    vectors = _vectors(tokenizer.decode(words.tolist()))
    row_of = {number: row for row, number in enumerate(words.tolist())}
    asked = [number for number in dict.fromkeys(ids) if number in row_of]
    found: dict[int, list[int]] = {}
    for part in torch.split(torch.tensor(asked, dtype=torch.int64), 256):
        rows = torch.tensor([row_of[number] for number in part.tolist()], dtype=torch.int64)
        likeness = vectors[rows] @ vectors.T
        likeness[torch.arange(len(rows)), rows] = -1.0
        values, nearest = likeness.topk(min(count, len(words)), dim=1)
        for number, value, near in zip(part.tolist(), values.tolist(), words[nearest].tolist(), strict=True):
            found[number] = [word for word, close in zip(near, value, strict=True) if close >= similarity]
    return found


def _vectors(words: Sequence[str]) -> torch.Tensor:
    """A vector of length one for each word: the mean of its pieces in MiniLM's table."""
    table, encoder = _minilm()
    sums = torch.zeros(len(words), table.shape[1])
    for start in range(0, len(words), 4096):
        encoded = encoder.encode(words[start : start + 4096])
        ids = encoded["input_ids"]
        pieces = encoded["attention_mask"].bool() & ~torch.isin(ids, torch.tensor(sorted(encoder.special)))
        weights = pieces.to(table.dtype)[:, :, None]
        sums[start : start + len(ids)] = (table[ids] * weights).sum(dim=1)
    return torch.nn.functional.normalize(sums, dim=1)


@cache
def _minilm() -> tuple[torch.Tensor, Tokenizer]:
    from safetensors import safe_open

    from modelkeep.zoo.datasets import weight_files
    from modelkeep.zoo.tokenizers import read_tokenizer

    weights, tokenizer = weight_files.fetch_minilm()
    with safe_open(weights, framework="pt") as file:
        table: torch.Tensor = file.get_tensor("embeddings.word_embeddings.weight").float()
    return table, read_tokenizer(tokenizer, length=_LONGEST_WORD)
