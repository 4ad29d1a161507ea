"""The real sets as the chapter has them: all rows of both parts, two classes, and class 1 the larger one."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.zoo import datasets

Array = NDArray[Any]

AGAINST_THE_REST = {"bladder": "Cancer"}
"""Sets of more than two classes, and the class that is told from all others."""


def table(name: str) -> tuple[Array, Array]:
    """Features `(n, d)` and labels, 1 for the class with more rows. Added features that mark gaps are left out."""
    parts = [datasets.load(name, "train"), datasets.load(name, "test")]
    x, y = (torch.cat([getattr(part, side) for part in parts]).numpy() for side in ("x", "y"))
    if name in AGAINST_THE_REST:
        y = (y == parts[0].class_index(AGAINST_THE_REST[name])).astype(np.int64)
    features = parts[0].features or ()
    x = x[:, [not feature.endswith(" is missing") for feature in features]]
    return x.astype(np.float64), y if y.mean() >= 0.5 else 1 - y
