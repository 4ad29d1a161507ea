"""Reading an ONNX graph as a torch module."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn


def read_onnx(path: Path, input_shape: Sequence[int] | None) -> tuple[nn.Module, dict[str, Any]]:
    raise NotImplementedError
