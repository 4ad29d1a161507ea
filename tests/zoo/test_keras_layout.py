"""Keras's layout: a kernel becomes torch's by its indices, and a file that does not fit its manifest is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelkeep.core.errors import ModelError
from modelkeep.zoo.keras_layout import read_weights

WEIGHTS = [
    {"name": "conv/kernel", "shape": [2, 3, 4, 5], "dtype": "float32"},
    {"name": "conv/bias", "shape": [5], "dtype": "float32"},
    {"name": "dense/kernel", "shape": [5, 7], "dtype": "float32"},
]
VALUES = np.arange(2 * 3 * 4 * 5 + 5 + 5 * 7, dtype="<f4")


def _files(folder: Path, weights: list[dict[str, Any]], values: np.ndarray[Any, Any] = VALUES) -> tuple[Path, Path]:
    manifest = folder / "model.json"
    manifest.write_text(json.dumps({"weightsManifest": [{"weights": weights[:1]}, {"weights": weights[1:]}]}))
    values.tofile(folder / "weights.bin")
    return manifest, folder / "weights.bin"


def test_each_number_stands_where_its_indices_say(tmp_path: Path) -> None:
    found = read_weights(*_files(tmp_path, WEIGHTS))
    assert list(found) == ["conv/kernel", "conv/bias", "dense/kernel"]
    kernel, dense = found["conv/kernel"], found["dense/kernel"]
    for height, width, before, after in np.ndindex(2, 3, 4, 5):
        assert kernel[after, before, height, width] == ((height * 3 + width) * 4 + before) * 5 + after
    for before, after in np.ndindex(5, 7):
        assert dense[after, before] == 125 + before * 7 + after
    assert found["conv/bias"].tolist() == [120, 121, 122, 123, 124]


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"should hold 160 numbers.* It holds 159"):
        read_weights(*_files(tmp_path, WEIGHTS, VALUES[1:]))
    with pytest.raises(ModelError, match="'conv/bias' is of another kind"):
        read_weights(*_files(tmp_path, [WEIGHTS[0], WEIGHTS[1] | {"quantization": {"dtype": "uint8"}}, WEIGHTS[2]]))
