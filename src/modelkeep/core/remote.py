"""Remote: a model at a URL that speaks the Open Inference Protocol v2, asked politely."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import torch

from modelkeep.core.card import class_names
from modelkeep.core.errors import MissingExtra, ModelError, QueryBudget, bad_parameter

DATATYPES = {"FP32": torch.float32, "FP64": torch.float64}
_NUMBERS = ("FP16", *DATATYPES)
_WHOLE = ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
_ATTEMPTS = 8
_AGAIN = (429, 502, 503, 504)  # statuses after which the same request may be made again


class Endpoint:
    """A model at `url`, which may name it as `…/v2/models/NAME`; else give `model`.

    Shape, type and number of classes come from its metadata. At most `rate` queries per second are sent, in requests
    of at most `batch`. A 429 or 503 is asked again after the time that it names, and a lost connection after a while;
    where that takes longer than `patience` seconds, it is an error.

    Args:
        url: Where it is.
        model: Its name there.
        key: An API key, sent as a bearer token.
        rate: The most queries per second.
        output: The name of the output, where there are several.
        classes: Their names, or their number where the metadata leaves it open.
        batch: Queries per request.
        patience: Seconds to wait at most for the same answer.
        labels: Whether the output holds one label per example, and not one number per class.
    """

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        key: str | None = None,
        rate: float | None = None,
        output: str | None = None,
        classes: Sequence[str] | int | None = None,
        batch: int = 64,
        patience: float = 60.0,
        labels: bool = False,
    ) -> None:
        try:
            import httpx
        except ImportError as missing:
            raise MissingExtra("guard", "httpx", "A model at a URL") from missing
        if rate is not None and not rate > 0:
            raise bad_parameter("Remote", "rate", "None or a number above 0", rate)
        if batch < 1:
            raise bad_parameter("Remote", "batch", "at least 1", batch)
        self.url = _address(url, model)
        self.batch = batch if rate is None else max(1, min(batch, int(rate)))
        self._labels, self._rate, self._patience = labels, rate, patience
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._client = httpx.Client(headers=headers, timeout=patience)
        self._next = 0.0  # when the rate allows the next request
        self._read_metadata(self._request("GET", self.url), output, classes)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def infer(self, x: torch.Tensor) -> torch.Tensor:
        """What it gives for at most `batch` examples `(n, *input_shape)`: `(n, classes)`, or labels `(n,)`."""
        tensor = {"name": self._input, "shape": list(x.shape), "datatype": self._datatype, "data": x.flatten().tolist()}
        body = {"inputs": [tensor], "outputs": [{"name": self._output}]}
        if self._rate is not None:
            time.sleep(max(0.0, self._next - time.monotonic()))
            self._next = time.monotonic() + len(x) / self._rate
        told = self._request("POST", f"{self.url}/infer", body)
        found = [each for each in told.get("outputs", []) if each.get("name") == self._output]
        kinds = _WHOLE if self._labels else _NUMBERS
        if not found or found[0].get("datatype") not in kinds or "data" not in found[0]:
            raise ModelError(f"The answer of {self.url} has no numbers under '{self._output}'. Got {str(told)[:200]}.")
        answers = torch.tensor(found[0]["data"], dtype=torch.float64)
        if self._labels:
            return answers.flatten()
        if answers.ndim == 1 and answers.numel() == len(x) * len(self.classes):
            answers = answers.view(len(x), len(self.classes))
        return answers

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
        numbers = [each for each in outputs if each.get("datatype") in (_WHOLE if self._labels else _NUMBERS)]
        chosen = [each for each in numbers if output in (None, each.get("name"))]
        if len(chosen) != 1:
            names = ", ".join(repr(each.get("name")) for each in numbers) or "none"
            what = "a label per example" if self._labels else "a number per class"
            raise ModelError(f"Name the output that holds {what}. {self.url} has: {names}.")
        self._input, self._output = inputs[0]["name"], chosen[0]["name"]
        self._datatype = inputs[0]["datatype"]
        self.dtype, self.device = DATATYPES[self._datatype], torch.device("cpu")
        self.input_shape = tuple(int(size) for size in inputs[0]["shape"][1:])
        count = -1 if self._labels else int((chosen[0].get("shape") or [-1])[-1])
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
