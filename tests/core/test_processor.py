"""A Hugging Face processor config means here what it means there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from modelkeep import Preprocessing
from modelkeep.core.errors import ModelError
from modelkeep.core.processor import read_processor

transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize(
    "told",
    [
        {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4], "size": {"height": 12, "width": 10}},
        {"do_normalize": False, "size": {"height": 12, "width": 10}},
        {"image_mean": [0.5] * 3, "image_std": [0.2] * 3, "rescale_factor": 1 / 127.5, "do_resize": False},
        {"image_mean": [100.0] * 3, "image_std": [50.0] * 3, "do_rescale": False, "do_resize": False},
    ],
)
def test_the_network_sees_what_hugging_faces_processor_gives(told: dict[str, Any], tmp_path: Path) -> None:
    """Against the processor of transformers on grey levels of the right size."""
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    (tmp_path / "preprocessor_config.json").write_text(json.dumps(told))
    levels = np.random.default_rng(0).integers(0, 256, (3, 12, 10), dtype=np.uint8)
    theirs = ViTImageProcessorPil(**told)(levels, return_tensors="pt", input_data_format="channels_first")
    card = read_processor(tmp_path)
    ours = Preprocessing(**card.get("preprocessing", {})).module((3, 12, 10)).float()
    torch.testing.assert_close(ours(torch.from_numpy(levels)[None] / 255), theirs["pixel_values"], rtol=1e-5, atol=1e-5)
    assert card["bounds"] == (0.0, 1.0)
    assert card.get("input_shape", (3, 12, 10)) == (3, 12, 10)


def test_sizes_in_all_their_forms(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    for told, shape in (
        ({"size": 32}, (3, 32, 32)),
        (
            {"size": {"shortest_edge": 32}, "crop_size": {"height": 28, "width": 30}, "do_center_crop": True},
            (3, 28, 30),
        ),
        ({"size": {"shortest_edge": 32}}, (3, 32, 32)),
        ({}, None),
    ):
        path.write_text(json.dumps(told))
        assert read_processor(path).get("input_shape") == shape


def test_what_is_no_processor_is_said(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        read_processor(tmp_path / "nothing.json")
    for text in ("[]", "{", '{"image_mean": "grey"}'):
        (tmp_path / "p.json").write_text(text)
        with pytest.raises(ModelError, match="is not a Hugging Face processor config"):
            read_processor(tmp_path / "p.json")
