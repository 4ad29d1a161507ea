"""One way to compute: torch's attention layers have a second, fused one, which rounds differently."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


def one_path(module: nn.Module) -> Callable[[], Any]:
    """A context in which `module` computes in one way only, with gradients or without, hooked or not.

    torch's attention layers have a fused path for inference that rounds differently; a cut could not be exact if
    which path is taken depended on who is looking.
    """
    fused = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)
    return _without_fused_attention if any(isinstance(part, fused) for part in module.modules()) else _as_it_is


@contextmanager
def _as_it_is() -> Iterator[None]:
    yield


@contextmanager
def _without_fused_attention() -> Iterator[None]:
    was_enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(was_enabled)
