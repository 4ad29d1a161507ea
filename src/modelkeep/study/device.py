"""Device: where the trials of a study compute."""

from __future__ import annotations

import torch


def best_device() -> str:
    """CUDA where there is some, else the CPU."""
    return "cuda" if torch.cuda.is_available() else "cpu"
