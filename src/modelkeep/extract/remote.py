"""Remote: a target at a URL that speaks the Open Inference Protocol v2, asked politely and never twice for nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import torch

from modelkeep.core import progress
from modelkeep.core.access import check_budget
from modelkeep.core.card import class_names
from modelkeep.core.errors import MissingExtra, ModelError, QueryBudget, bad_parameter
from modelkeep.extract.answer_store import AnswerStore, identity
from modelkeep.extract.target import Returns, probabilities

DATATYPES = {"FP32": torch.float32, "FP64": torch.float64}
_ATTEMPTS = 8
_AGAIN = (429, 502, 503, 504)  # statuses after which the same request may be made again


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
        try:
            import httpx
        except ImportError as missing:
            raise MissingExtra("guard", "httpx", "A remote target") from missing
        if rate is not None and not rate > 0:
            raise bad_parameter("Remote", "rate", "None or a number above 0", rate)
        if batch < 1:
            raise bad_parameter("Remote", "batch", "at least 1", batch)
        self.url = _address(url, model)
        self.budget, self.bounds, self.returns = budget, bounds, returns
        self._rate, self._patience = rate, patience
        self._batch = batch if rate is None else max(1, min(batch, int(rate)))
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._client = httpx.Client(headers=headers, timeout=patience)
        self._next = 0.0  # when the rate allows the next request
        self._asked: set[bytes] = set()
        self._read_metadata(self._request("GET", self.url), output, classes)
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
            for start in range(0, len(unknown), self._batch):
                part = unknown[start : start + self._batch]
                self._answers.add([names[i] for i in part], self._infer(x[part]))
                task.advance(len(part))
        self._asked.update(names)
        return torch.stack([self._answers[name] for name in names])

    def close(self) -> None:
        """Close the connection and the file."""
        self._client.close()
        self._answers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _infer(self, x: torch.Tensor) -> torch.Tensor:
        tensor = {"name": self._input, "shape": list(x.shape), "datatype": self._datatype, "data": x.flatten().tolist()}
        body = {"inputs": [tensor], "outputs": [{"name": self._output}]}
        if self._rate is not None:
            time.sleep(max(0.0, self._next - time.monotonic()))
            self._next = time.monotonic() + len(x) / self._rate
        told = self._request("POST", f"{self.url}/infer", body)
        found = [each for each in told.get("outputs", []) if each.get("name") == self._output]
        if not found or found[0].get("datatype") not in ("FP16", *DATATYPES) or "data" not in found[0]:
            raise ModelError(f"The answer of {self.url} has no numbers under '{self._output}'. Got {str(told)[:200]}.")
        answers = torch.tensor(found[0]["data"], dtype=torch.float64)
        if answers.ndim == 1 and answers.numel() == len(x) * len(self.classes):
            answers = answers.view(len(x), len(self.classes))
        return probabilities(answers, (len(x), len(self.classes)), self.returns)

    def _request(self, method: str, url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The JSON that comes back, after as many attempts as are allowed and help."""
        import httpx

        began, reason = time.monotonic(), ""
        for attempt in range(_ATTEMPTS):
            wait = 0.1 * 2**attempt
            try:
                response = self._client.request(method, url, json=body)
            except httpx.TransportError as error:
                reason = f"{type(error).__name__}: {error}"
            else:
                told = _json(response)
                if response.status_code == 200 and told is not None:
                    return told
                reason = (
                    f"status {response.status_code}: {str((told or {}).get('error', response.text))[:200].rstrip('.')}"
                )
                after = response.headers.get("Retry-After", "")
                if response.status_code == 429 and not after:
                    raise QueryBudget(f"The target answers no more ({reason}). What it answered so far is kept.")
                if response.status_code not in _AGAIN:
                    raise ModelError(f"{url} refused: {reason}.")
                wait = float(after) if after.isdecimal() else wait
            if time.monotonic() + wait - began > self._patience:
                break
            time.sleep(wait)
        raise ModelError(f"{url} gave no answer in {self._patience:g} s; the last was {reason}. Ask again later.")

    def _read_metadata(self, told: dict[str, Any], output: str | None, classes: Sequence[str] | int | None) -> None:
        inputs, outputs = told.get("inputs", []), told.get("outputs", [])
        if len(inputs) != 1 or inputs[0].get("datatype") not in DATATYPES:
            raise ModelError(f"A target takes one input of {' or '.join(DATATYPES)}. {self.url} says: {inputs}.")
        numbers = [each for each in outputs if each.get("datatype") in ("FP16", *DATATYPES)]
        chosen = [each for each in numbers if output in (None, each.get("name"))]
        if len(chosen) != 1:
            names = ", ".join(repr(each.get("name")) for each in numbers) or "none"
            raise ModelError(f"Name the output that holds a number per class. {self.url} has: {names}.")
        self._input, self._output = inputs[0]["name"], chosen[0]["name"]
        self._datatype = inputs[0]["datatype"]
        self.dtype, self.device = DATATYPES[self._datatype], torch.device("cpu")
        self.input_shape = tuple(int(size) for size in inputs[0]["shape"][1:])
        count = int((chosen[0].get("shape") or [-1])[-1])
        if min(self.input_shape, default=0) < 1:
            raise ModelError(f"{self.url} does not say the shape of its input: {inputs[0]['shape']}.")
        if classes is None and count < 2:
            raise ModelError(f"{self.url} does not say how many classes it has. Give classes=….")
        self.classes = class_names(count if classes is None else classes)
        if count >= 2 and len(self.classes) != count:
            raise ModelError(f"{self.url} has {count} classes. Got {len(self.classes)}.")


def _address(url: str, model: str | None) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise bad_parameter("Remote", "url", "an http:// or https:// address", url)
    url = url.rstrip("/").removesuffix("/infer")
    if "/v2/models/" in url:
        return url
    if model is None:
        raise ModelError(f"Which model? Give its name, or an address such as {url}/v2/models/NAME.")
    return f"{url.removesuffix('/v2')}/v2/models/{model}"


def _json(response: Any) -> dict[str, Any] | None:
    try:
        told = response.json()
    except ValueError:
        return None
    return told if isinstance(told, dict) else None
