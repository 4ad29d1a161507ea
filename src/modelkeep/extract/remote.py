"""Remote: a target at a URL that speaks the Open Inference Protocol v2, asked politely and never twice for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import torch

from modelkeep.core import progress
from modelkeep.core.access import check_budget
from modelkeep.core.errors import ModelError
from modelkeep.core.remote import Endpoint
from modelkeep.extract.answer_store import AnswerStore, identity
from modelkeep.extract.target import Returns, probabilities


class Remote:
    """A model at `url`, which may name it as `…/v2/models/NAME`; else give `model`.

    Shape, type and number of classes come from its metadata. At most `rate` queries per second are sent, in requests
    of at most `batch`. A 429 or 503 is asked again after the time that it names, and a lost connection after a while;
    where that takes longer than `patience` seconds, it is an error. A question that was answered is not sent again:
    answers are kept in memory and, with a `folder`, on disk, so that a run that was stopped goes on where it was.

    Args:
        url: Where it is.
        model: Its name there.
        key: An API key, sent as a bearer token.
        budget: The most questions that may be asked, those of a run that is gone on with included.
        rate: The most queries per second.
        returns: What its output holds: "probabilities" or "logits". What does not look like it is refused.
        output: The name of that output, where there are several.
        classes: Their names, or their number where the metadata leaves it open.
        bounds: The range of the values of an input.
        batch: Queries per request.
        patience: Seconds to wait at most for the same answer.
        folder: Where answers are kept.
    """

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        key: str | None = None,
        budget: int | None = None,
        rate: float | None = None,
        returns: Returns = "probabilities",
        output: str | None = None,
        classes: Sequence[str] | int | None = None,
        bounds: tuple[float, float] | None = (0.0, 1.0),
        batch: int = 64,
        patience: float = 60.0,
        folder: str | Path | None = None,
    ) -> None:
        self._endpoint = Endpoint(
            url, model, key=key, rate=rate, output=output, classes=classes, batch=batch, patience=patience
        )
        self.url = self._endpoint.url
        self.budget, self.bounds, self.returns = budget, bounds, returns
        self.input_shape, self.classes = self._endpoint.input_shape, self._endpoint.classes
        self.dtype, self.device = self._endpoint.dtype, self._endpoint.device
        self._asked: set[bytes] = set()
        self._answers = AnswerStore(folder, self.url, len(self.classes))

    @property
    def queries(self) -> int:
        """The number of different questions that were asked so far; of a run that is gone on with, all of them."""
        return len(self._asked)

    def probs(self, x: torch.Tensor) -> torch.Tensor:
        """Class probabilities `(n, classes)` for `x: (n, *input_shape)`."""
        return self.again(x, 0)

    def again(self, x: torch.Tensor, repetition: int) -> torch.Tensor:
        """The same, asked for the second (third …) time: questions of one `repetition` are sent once."""
        x = x.detach().cpu().to(self.dtype).contiguous()
        if tuple(x.shape[1:]) != self.input_shape:
            raise ModelError(f"The target takes inputs of shape {self.input_shape}. Got {tuple(x.shape[1:])}.")
        names = [identity(row, repetition) for row in x]
        check_budget(self.budget, self.queries, len(set(names) - self._asked))
        unknown = [i for name, i in dict(zip(names, range(len(x)), strict=True)).items() if name not in self._answers]
        with progress.task("asking the target", len(x)) as task:
            task.advance(len(x) - len(unknown))
            for start in range(0, len(unknown), self._endpoint.batch):
                part = unknown[start : start + self._endpoint.batch]
                answers = probabilities(self._endpoint.infer(x[part]), (len(part), len(self.classes)), self.returns)
                self._answers.add([names[i] for i in part], answers)
                task.advance(len(part))
        self._asked.update(names)
        return torch.stack([self._answers[name] for name in names])

    def close(self) -> None:
        """Close the connection and the file."""
        self._endpoint.close()
        self._answers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
