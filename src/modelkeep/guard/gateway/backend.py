"""Where predictions come from: the model in this process, or (upstream.py) another server."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core.errors import PredictionError
from modelkeep.core.model import Model
from modelkeep.guard.protocol.tensors import Array

Probabilities = NDArray[np.floating[Any]]


class NotFinite(PredictionError):
    """The model gave NaN or infinity: of ordinary inputs its own fault, of enormous ones that of who sent them."""


class Backend(Protocol):
    """Clean predictions. They never leave but through the gate."""

    async def predict(self, rows: Array) -> Probabilities:
        """Probabilities `(n, classes)` for `rows: (n, *input_shape)`."""

    async def ready(self) -> bool:
        """Whether it would answer now."""

    async def close(self) -> None:
        """Give back what is open."""


class LocalBackend:
    """The model in this process, one row at a time in one thread.

    A row that is computed alone, always in the same shape by the same kernels, gets the same bits beside any other
    rows: no batch size can change an answer.
    """

    def __init__(self, model: Model) -> None:
        model.logits(model.probe())  # a model in train mode, of other classes or with a softmax is found out now
        self.model = model
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model", initializer=_one_core)

    async def predict(self, rows: Array) -> Probabilities:
        """Probabilities in float64, `(n, classes)`."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._predict, rows)

    async def ready(self) -> bool:
        """A model in memory always is."""
        return True

    async def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()

    def _predict(self, rows: Array) -> Probabilities:
        logits = np.empty((len(rows), len(self.model.classes)))
        with torch.no_grad():
            for row, x in enumerate(torch.from_numpy(rows).to(self.model.device, self.model.dtype)):
                logits[row] = self.model.forward(x[None])[0].double().cpu().numpy()
        return softmax(logits)


def softmax(logits: NDArray[Any]) -> Probabilities:
    """Probabilities `(n, classes)` of logits, in float64 so that it adds no noise to that of the logits.

    >>> softmax(np.array([[0.0, 0.0], [1e9, 0.0]]))
    array([[0.5, 0.5],
           [1. , 0. ]])
    """
    if not np.isfinite(logits).all():
        raise NotFinite("The model gives NaN or infinite logits for finite inputs.")
    wide = logits.astype(np.float64)
    powers = np.exp(wide - wide.max(axis=1, keepdims=True))
    probabilities: Probabilities = powers / powers.sum(axis=1, keepdims=True)
    return probabilities


def _one_core() -> None:
    # A row is too small to share; and sums that threads share are added in another order each time.
    torch.set_num_threads(1)
