"""Substitution: the word that counts most goes first, only to words that are allowed, and only scores are asked."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from modelkeep.attack import Substitution
from modelkeep.core.errors import InputError
from texts import sentences, sentiment

SYNONYMS = {"good": ("fine", "film"), "fine": ("dull", "awful"), "the": ("awful",), "great": ("good", "not a word")}


def test_the_nearest_word_that_suffices_is_taken() -> None:
    model = sentiment()
    found = Substitution(words=1, synonyms=SYNONYMS)(model, sentences(model, ("film fine fine",)))
    # 0.1 + 1 + 1: "dull" leaves 0.1, "awful" makes it negative; both words count the same, and the first goes first.
    assert found.texts[0].changes == (("fine", "awful"),)
    assert found.after.tolist() == [0]


def test_words_without_neighbours_stay() -> None:
    model = sentiment()
    found = Substitution(words=5, synonyms={"good": ("fine",)})(model, sentences(model))
    assert not found.success.any()
    assert not found.texts


def test_it_asks_once_for_the_text_once_without_each_word_and_once_for_each_neighbour() -> None:
    model = sentiment()
    found = Substitution(words=2, synonyms={"good": ("fine", "film")})(model, sentences(model, ("the good film",)))
    # The text, three without a word, two neighbours: "film" leads most but does not suffice.
    assert found.queries == 1 + 3 + 2
    assert found.gradients == 0


def test_no_more_words_than_allowed() -> None:
    model = sentiment()
    data = sentences(model, ("great great great great great",))
    found = Substitution(words=2, synonyms={"great": ("awful",)})(model, data)
    assert not found.success.any()  # 3 · 3 − 2 · 3 is still above zero
    assert Substitution(words=3, synonyms={"great": ("awful",)})(model, data).distance.tolist() == [3.0]


def test_words_must_be_known() -> None:
    model = sentiment()
    data = sentences(model)
    with pytest.raises(InputError, match="needs to know the words of 'data', which has no tokenizer"):
        Substitution()(model, replace(data, tokenizer=None))


def test_the_same_seed_gives_the_same_texts() -> None:
    model = sentiment()
    data = sentences(model)
    once, again = (Substitution(synonyms=SYNONYMS)(model, data, seed=3) for _ in range(2))
    assert torch.equal(once.adversarial, again.adversarial)
