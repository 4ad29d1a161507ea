"""Trying a module that was read from a graph: does it treat each example on its own, and how many logits are there?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from modelkeep.core.errors import ModelError


def count_logits(module: nn.Module, input_shape: Sequence[int], dtype: torch.dtype, source: object, remedy: str) -> int:
    """Run three examples together and one by one, and return the number of logits.

    A graph that was exported for one batch size, or in train mode, gives another answer or none when its examples
    come together. `remedy` says how to export it again.
    """
    x = torch.rand(3, *input_shape, generator=torch.Generator().manual_seed(0), dtype=dtype)
    try:
        with torch.no_grad():
            together = _logits(module(x))
            alone = torch.cat([_logits(module(x[i : i + 1])) for i in range(3)])
    except ModelError:
        raise
    except Exception as error:  # whatever torch says about shapes that do not fit
        raise ModelError(
            f"'{source}' cannot be run on batches of 1 and 3 inputs of shape {tuple(input_shape)}: {error}. "
            f"If it was exported for one batch size, export it again: {remedy}"
        ) from error
    if together.ndim != 2 or len(together) != 3:
        raise ModelError(
            f"'{source}' should give logits of shape (3, classes) for 3 inputs. Got shape {tuple(together.shape)}. "
            f"If it was exported for one batch size, export it again: {remedy}"
        )
    if not torch.allclose(together, alone, rtol=1e-3, atol=1e-4, equal_nan=True):
        raise ModelError(
            f"'{source}' gives other answers for examples that come together than for each alone. It was exported for "
            f"one batch size or in train mode; export it again: {remedy}"
        )
    return together.shape[1]


def _logits(answer: Any) -> torch.Tensor:
    """The tensor of an answer as Hugging Face gives it, or the answer itself."""
    found = getattr(answer, "logits", answer)
    if not isinstance(found, torch.Tensor):
        raise TypeError(f"the module gives a {type(answer).__name__}")
    return found
