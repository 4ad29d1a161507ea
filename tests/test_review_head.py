"""The tool that trains the head of minilm-reviews: on a few texts, with everything that can be known otherwise."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.linear_model import LogisticRegression

from modelkeep import Data
from modelkeep.core.errors import DataError
from modelkeep.zoo.datasets import weight_files
from modelkeep.zoo.minilm import REVIEWS_LENGTH, minilm

TOOL = Path(__file__).parent.parent / "tools" / "review_head.py"
COUNT = 24


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    try:
        weight_files.fetch_minilm()
    except DataError as error:
        pytest.skip(f"the registry is out of reach: {error}")
    return runpy.run_path(str(TOOL))


def test_a_head_is_made_and_answers_on_the_body(tool: dict[str, Any], tmp_path: Path) -> None:
    head = tool["make_head"](COUNT, tmp_path / "head.safetensors")
    whole = minilm(head.classes, length=REVIEWS_LENGTH, hidden=0)
    whole.module.load_state_dict(load_file(tmp_path / "head.safetensors"), strict=False)
    data = tool["read_texts"](tool["DATA"], "train", COUNT).first(4)
    torch.testing.assert_close(whole.logits(data.x), head.logits(tool["compute_features"](whole, data).x))


def test_a_head_is_a_logistic_regression(tool: dict[str, Any]) -> None:
    """With much weight decay the loop comes to the minimum that scikit-learn finds: decay/4 |w|² + the mean loss."""
    draw = np.random.default_rng(0)
    y = np.arange(4000) % 2
    x = (draw.normal(size=(4000, 5)) + 0.7 * (y[:, None] - 0.5)).astype(np.float32)
    decay = 0.03
    head = tool["train_head"](Data(torch.from_numpy(x), torch.from_numpy(y), ("no", "yes"), bounds=None), decay)
    weight = head.module.state_dict()["weight"]
    exact = LogisticRegression(C=2 / (decay * len(x))).fit(x, y)
    np.testing.assert_allclose((weight[1] - weight[0]).numpy(), exact.coef_[0], atol=0.03)


def test_the_weight_decay_is_chosen_on_what_was_held_out(tool: dict[str, Any]) -> None:
    """Of labels that are noise, the features say nothing: the strongest decay must win."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 50, generator=generator)
    y = torch.randint(2, (200,), generator=generator)
    decay, accuracy = tool["choose_decay"](Data(x, y, ("no", "yes"), bounds=None), (0.0, 1.0))
    assert decay == 1.0
    assert accuracy.n == 40
