"""Tokenizers: what is encoded is decoded again, the same after a file, and as Hugging Face's own package has it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from modelkeep.core.errors import DataError, InputError
from modelkeep.core.tokenizer import Tokenizer
from modelkeep.zoo.tokenizers import HuggingFaceTokenizer, WordTokenizer, parse_tokenizer, read_tokenizer

TEXTS = ["The film is good, really good.", "the film isn't good", "a car"]


def word_piece() -> str:
    """A tokenizer.json of WordPiece as BERT has it, made by Hugging Face's own package."""
    from tokenizers import Tokenizer as Fast
    from tokenizers import models, normalizers, pre_tokenizers, processors

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "film", "token", "##izer", "a", "."]
    fast = Fast(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    fast.normalizer = normalizers.BertNormalizer()
    fast.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    fast.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    fast.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    return str(fast.to_str())


def test_the_commonest_words_get_numbers() -> None:
    found = WordTokenizer.learn(TEXTS, size=5)
    assert found.words == ("good", "film", "the")  # three times, twice, twice
    assert found.size == 5


def test_what_is_known_comes_back_and_the_rest_is_unknown_or_padding() -> None:
    found = WordTokenizer.learn(TEXTS, length=6)
    encoded = found.encode(["Good film, a tank", "", "the film is good really good . a car"])
    assert found.decode(encoded["input_ids"][0].tolist()) == ["good", "film", ",", "a", "[UNK]", "[PAD]"]
    assert encoded["attention_mask"].tolist() == [[1] * 5 + [0], [1] + [0] * 5, [1] * 6]  # cut after six
    assert found.decode(encoded["input_ids"][2].tolist()) == ["the", "film", "is", "good", "really", "good"]


def test_hugging_face_is_padded_cut_and_decoded() -> None:
    found = HuggingFaceTokenizer(word_piece(), length=5)
    encoded = found.encode(["A tokenizer.", "Good", "good good good good good"])
    assert encoded["input_ids"].tolist() == [[2, 8, 6, 7, 3], [2, 4, 3, 0, 0], [2, 4, 4, 4, 3]]
    assert encoded["attention_mask"].tolist() == [[1] * 5, [1, 1, 1, 0, 0], [1] * 5]
    assert found.decode([2, 8, 6, 7, 3]) == ["[CLS]", "a", "token", "##izer", "[SEP]"]
    assert found.special == {0, 1, 2, 3}
    assert isinstance(found, Tokenizer)


def test_pieces_of_a_byte_level_vocabulary_get_the_same_form() -> None:
    from tokenizers import Tokenizer as Fast
    from tokenizers import models, pre_tokenizers

    fast = Fast(models.BPE({"<pad>": 0, "Ġ": 1, "a": 2, "b": 3, "Ġa": 4}, [("Ġ", "a")]))
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    found = HuggingFaceTokenizer(fast.to_str(), length=4)
    ids = found.encode(["ab a"])["input_ids"][0].tolist()
    assert found.decode(ids) == ["a", "##b", "a", "<pad>"]


@pytest.mark.parametrize(
    "tokenizer", [WordTokenizer.learn(TEXTS, length=7), HuggingFaceTokenizer(word_piece(), length=7)]
)
def test_a_file_keeps_all_of_it(tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(tokenizer.to_json(), encoding="utf-8")
    again = read_tokenizer(tmp_path)
    assert again.length == 7
    assert again.special == tokenizer.special
    for name, tensor in again.encode(TEXTS).items():
        assert torch.equal(tensor, tokenizer.encode(TEXTS)[name])
    assert read_tokenizer(tmp_path, length=9).length == 9


@pytest.mark.parametrize("text", ["{", "[1]", json.dumps({"kind": "other"})])
def test_what_is_no_tokenizer_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(DataError, match=r"t\.json is not a tokenizer"):
        read_tokenizer(tmp_path / "t.json")


def test_a_missing_file_and_wrong_settings() -> None:
    with pytest.raises(DataError, match="no tokenizer at"):
        read_tokenizer("/no/such/file.json")
    with pytest.raises(InputError, match="'length' parameter"):
        WordTokenizer(("a",), length=0)
    with pytest.raises(DataError, match="must be there once"):
        WordTokenizer(("a", "a"))
    with pytest.raises(DataError, match="ids 0 to 9"):
        parse_tokenizer(word_piece()).decode([10])
