"""A text model's tokenizer is found beside it, goes along when it is converted or copied, and fits a bare width."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from cli.running import Run
from modelkeep import Data
from modelkeep.cli.tokenizer_files import find_tokenizer, tokenizer_of_width, write_tokenizer
from modelkeep.core.errors import InputError
from modelkeep.core.model_file import Description
from modelkeep.training import Adam, Recipe, cross_entropy, fit
from texts import TOKENIZER, VALUES, lstm, sentences


def test_it_is_found_where_it_is_written(tmp_path: Path) -> None:
    model = tmp_path / "reviews.safetensors"
    assert find_tokenizer(str(model), Description()) is None
    place = write_tokenizer(TOKENIZER.to_json(), model)
    assert find_tokenizer(str(model), Description()) == place == tmp_path / "reviews.tokenizer.json"
    assert find_tokenizer(str(model), Description(tokenizer=tmp_path / "other.json")) == tmp_path / "other.json"


def test_a_model_at_a_url_says_only_how_many_numbers_it_takes(tmp_path: Path) -> None:
    place = write_tokenizer(TOKENIZER.to_json(), tmp_path / "reviews.safetensors")
    assert tokenizer_of_width(Description(), (10,)) is None
    found = tokenizer_of_width(Description(tokenizer=place), (8,))
    assert found is not None
    assert found.length == 4
    with pytest.raises(InputError, match="as many numbers of their mask"):
        tokenizer_of_width(Description(tokenizer=place), (3, 8, 8))


def test_it_goes_along_with_a_converted_model(modelkeep: Run, tmp_path: Path) -> None:
    write_tokenizer(TOKENIZER.to_json(), lstm().save(tmp_path / "reviews.safetensors"))
    run = modelkeep("convert", "reviews.safetensors", "--out", "sub.safetensors", "--json")
    assert run.code == 0, run.err
    assert json.loads(run.out)["written"] == ["sub.safetensors", "sub.tokenizer.json"]
    assert (tmp_path / "sub.tokenizer.json").read_text() == TOKENIZER.to_json()


def test_it_goes_along_with_a_folder_of_hugging_face(modelkeep: Run, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    sizes: dict[str, Any] = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=TOKENIZER.size, max_position_embeddings=5, **sizes)
    torch.manual_seed(0)
    transformers.BertForSequenceClassification(config).save_pretrained(tmp_path / "bert")
    (tmp_path / "bert" / "tokenizer.json").write_text(TOKENIZER.to_json())
    run = modelkeep("convert", "bert", "--out", "bert.safetensors")
    assert run.code == 0, run.err
    (tmp_path / "reviews.csv").write_text("text,label\n" + "good film,LABEL_1\nbad film,LABEL_0\n" * 4)
    read = modelkeep("attack", "bert.safetensors", "--data", "reviews.csv", "--text", "text", "--method", "hotflip")
    assert read.code == 0, read.err


def _write_reviews(folder: Path, *, trained: bool = False) -> None:
    """A text model with its tokenizer, and texts for it."""
    model = lstm()
    if trained:
        texts = tuple(f"{word} film {other}" for word in ("good", "bad") for other in VALUES)
        data = sentences(model, texts)
        truth = torch.tensor([int(text.startswith("good")) for text in texts])
        learned = Data(data.x, truth, model.classes, nest=data.nest, tokenizer=TOKENIZER)
        recipe = Recipe(epochs=30, batch_size=8, optimizer=Adam(), learning_rate=0.03)
        fit(model, learned, cross_entropy, recipe, seed=0)
    write_tokenizer(TOKENIZER.to_json(), model.save(folder / "reviews.safetensors"))
    labels = (("good", "positive"), ("bad", "negative"))
    lines = [f"{word} film {other},{label}" for word, label in labels for other in VALUES]
    (folder / "reviews.csv").write_text("\n".join(["text,label", *lines]))


def test_completion_of_a_text_model(modelkeep: Run, tmp_path: Path) -> None:
    """Its trials read the texts in processes of their own, with the model's tokenizer and the same class 1."""
    _write_reviews(tmp_path, trained=True)
    told = ("--data", "reviews.csv", "--train", "reviews.csv", "--text", "text", "--positive", "positive")
    short = ("--part", "logits", "--procedure", "T2", "--seeds", "1", "--steps", "40", "--every", "4")
    run = modelkeep("complete", "reviews.safetensors", *told, *short, "--learning-rate", "0.02")
    assert run.code == 0, run.err
    assert "To get 'logits' back takes at most" in run.out


def test_privacy_of_a_text_model_shows_words(modelkeep: Run, tmp_path: Path) -> None:
    _write_reviews(tmp_path)
    same = ("--members", "reviews.csv", "--non-members", "reviews.csv", "--text", "text")
    run = modelkeep("privacy", "reviews.safetensors", *same, "--epochs", "1", "--examples", "12")
    assert run.code == 0, run.err
    assert "Not done: noise" in run.err
    assert "its words" in (tmp_path / "modelkeep-out" / "privacy.html").read_text()
    run = modelkeep("privacy", "reviews.safetensors", *same, "--method", "noise")
    assert "a text is made of token ids" in run.err
