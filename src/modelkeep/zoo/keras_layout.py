"""Read weights as Keras and TensorFlow.js keep them: a manifest that names them, and their float32 values in a row."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import torch

from modelkeep.core.errors import ModelError


def read_weights(manifest: Path, values: Path) -> dict[str, torch.Tensor]:
    """The tensors by their names (`conv1/kernel`), in torch's layout.

    A kernel of a convolution is stored as (height, width, in, out) and becomes (out, in, height, width); one of a
    dense layer is stored as (in, out) and becomes (out, in).
    """
    groups = json.loads(manifest.read_text(encoding="utf-8"))["weightsManifest"]
    listed = [weight for group in groups for weight in group["weights"]]
    if other := [weight["name"] for weight in listed if weight["dtype"] != "float32" or "quantization" in weight]:
        raise ModelError(f"{manifest} must list plain float32 weights. '{other[0]}' is of another kind.")
    numbers = np.fromfile(values, dtype="<f4")
    wanted = sum(math.prod(weight["shape"]) for weight in listed)
    if len(numbers) != wanted:
        raise ModelError(f"{values} should hold {wanted} numbers, as {manifest} lists. It holds {len(numbers)}.")
    found, start = {}, 0
    for weight in listed:
        end = start + math.prod(weight["shape"])
        found[weight["name"]] = _turn(torch.from_numpy(numbers[start:end].reshape(weight["shape"])))
        start = end
    return found


def _turn(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.ndim == 4:
        return tensor.permute(3, 2, 0, 1).contiguous()
    return tensor.T.contiguous() if tensor.ndim == 2 else tensor.clone()
