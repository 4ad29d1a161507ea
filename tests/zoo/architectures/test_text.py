"""Networks for texts: padding changes nothing, words do, and the file brings them back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from modelkeep import Model
from modelkeep.core.errors import InputError
from modelkeep.core.tokenizer import nest_of
from modelkeep.zoo.architectures import text_lstm, text_transformer
from modelkeep.zoo.architectures.text import MaskedMean
from modelkeep.zoo.tokenizers import WordTokenizer

TOKENIZER = WordTokenizer(tuple("abcdefgh"), length=6)
NETWORKS: list[tuple[str, dict[str, Any]]] = [
    ("text_lstm", {"vocabulary": 10, "classes": 3}),
    ("text_transformer", {"vocabulary": 10, "length": 6, "classes": 3, "width": 8, "heads": 2}),
]
each_network = pytest.mark.parametrize(("name", "arguments"), NETWORKS)


def build(name: str, arguments: dict[str, Any]) -> Model:
    torch.manual_seed(0)
    module = text_lstm(**arguments) if name == "text_lstm" else text_transformer(**arguments)
    return Model(
        module,
        inputs=nest_of(TOKENIZER),
        classes=("x", "y", "z"),
        architecture=f"modelkeep.architectures:{name}",
        arguments=arguments,
    )


@each_network
def test_what_stands_under_the_padding_does_not_count(name: str, arguments: dict[str, Any]) -> None:
    model = build(name, arguments)
    encoded = TOKENIZER.encode(["a b c", "a b d"])
    first = model.logits(encoded)
    encoded["input_ids"][:, 3:] = 7
    torch.testing.assert_close(model.logits(encoded), first)
    assert not torch.allclose(first[0], first[1])


@each_network
def test_a_file_brings_back_network_and_nest(name: str, arguments: dict[str, Any], tmp_path: Path) -> None:
    model = build(name, arguments)
    again = Model.load(model.save(tmp_path / "model.safetensors"))
    assert again.nest == nest_of(TOKENIZER)
    assert again.fingerprint() == model.fingerprint()


@each_network
def test_the_network_can_be_cut_at_the_embedding(name: str, arguments: dict[str, Any]) -> None:
    model = build(name, arguments)
    x = nest_of(TOKENIZER).pack(TOKENIZER.encode(["a b c", "h g f e d c b a"]))
    cutting = model.slice("embedding")
    cut = cutting.h(x)
    assert torch.equal(cutting.g(cut), model.forward(x))
    assert cut.value.shape[:2] == (2, 6)


def test_the_lstm_is_torchs_with_a_mean() -> None:
    """By hand, one text at a time and without padding."""
    model = build(*NETWORKS[0])
    module = model.module
    parts = dict(module.named_children())
    encoded = TOKENIZER.encode(["a b c"])
    with torch.no_grad():
        states, _ = parts["lstm"](parts["embedding"](encoded["input_ids"][:, :3]))
        expected = parts["logits"](states.mean(dim=1))
    torch.testing.assert_close(model.logits(encoded), expected)


def test_the_mean_of_an_empty_text_is_zero_and_not_nan() -> None:
    mean: nn.Module = MaskedMean()
    assert mean(torch.ones(1, 2, 3), torch.zeros(1, 2)).tolist() == [[0.0, 0.0, 0.0]]


def test_sizes_are_checked() -> None:
    with pytest.raises(InputError, match="'classes' parameter of text_lstm must be at least 2"):
        text_lstm(10, 1)
    with pytest.raises(InputError, match="a divisor of the width 64"):
        text_transformer(10, 6, 2, heads=5)
