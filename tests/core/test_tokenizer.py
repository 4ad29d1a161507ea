"""Pieces become words again, and both kinds of tokenizer have the form that the core knows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from modelkeep.core.tokenizer import Tokenizer, join_pieces, word_spans
from modelkeep.zoo.tokenizers import WordTokenizer


@given(st.lists(st.lists(st.text("abc", min_size=1), min_size=1), min_size=1))
def test_words_cut_into_pieces_are_found_again(words: list[list[str]]) -> None:
    pieces = [piece if i == 0 else f"##{piece}" for word in words for i, piece in enumerate(word)]
    assert [join_pieces(pieces[a:b]) for a, b in word_spans(pieces)] == ["".join(word) for word in words]


def test_a_text_may_begin_in_the_middle_of_a_word() -> None:
    assert word_spans(["##izer", "works"]) == [(0, 1), (1, 2)]
    assert word_spans([]) == []


def test_ours_has_the_form() -> None:
    assert isinstance(WordTokenizer(("a",)), Tokenizer)
