"""Feed: the examples of each step's batch. Those that are not in memory are read one step ahead."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import torch

from modelkeep.core.data import Data
from modelkeep.core.examples import Stored
from modelkeep.training.batches import Batches


class Feed:
    """Batches of `data` by step, as `dtype`. Which examples a step sees depends on the step alone."""

    def __init__(self, data: Data, batches: Batches, dtype: torch.dtype, total: int) -> None:
        self._batches, self._dtype, self._total = batches, dtype, total
        self._x, self._y = data.x, data.y
        self._reader: ThreadPoolExecutor | None = None
        self._coming: tuple[int, torch.Tensor, Future[torch.Tensor]] | None = None
        if isinstance(self._x, Stored):
            self._reader = ThreadPoolExecutor(1, "read ahead")
        else:
            self._x = self._x.to(dtype)

    def batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The examples of a step, their labels and their places in the data."""
        if self._reader is None:
            index = self._batches.index(step)
            return self._x.index_select(0, index), self._y.index_select(0, index), index
        if self._coming is None or self._coming[0] != step:
            self._ask(step)
        assert self._coming is not None
        _, index, coming = self._coming
        x = coming.result()
        self._coming = None
        if step + 1 < self._total:
            self._ask(step + 1)
        return x, self._y.index_select(0, index), index

    def close(self) -> None:
        """End the thread that reads."""
        if self._reader is not None:
            self._reader.shutdown(wait=True, cancel_futures=True)

    def _ask(self, step: int) -> None:
        """Begin to read the batch of a step."""
        assert self._reader is not None
        index = self._batches.index(step)
        self._coming = (step, index, self._reader.submit(self._read, index))

    def _read(self, index: torch.Tensor) -> torch.Tensor:
        assert isinstance(self._x, Stored)
        return self._x.choose(index).load().to(self._dtype)
