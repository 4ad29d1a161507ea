"""A backend that asks another server, over the REST side of the Open Inference Protocol.

Nothing that it says is believed before it was checked, and nothing but the checked numbers goes on: not its other
tensors, its parameters, its headers or the texts of its errors.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import quote

import numpy as np
import orjson

from modelkeep.core.errors import PredictionError
from modelkeep.guard.gateway.backend import NotFinite, Probabilities, softmax
from modelkeep.guard.gateway.caller import Caller, NotReached, Reply
from modelkeep.guard.protocol.rest import BINARY, HEADER_LENGTH, JSON
from modelkeep.guard.protocol.tensors import Array, TensorSpec, datatype_of, from_bytes, from_numbers
from modelkeep.guard.refusals import Refusal, Unavailable

log = logging.getLogger(__name__)

MOST = 1 << 26  # bytes of an answer
_HEADER_LENGTH = HEADER_LENGTH.lower().encode()


class UpstreamBackend:
    """A model behind `url`. `gives` says what its output holds; logits become probabilities here.

    Tensors travel as binary data if the server's metadata name that extension, and as JSON if not. `timeout` is in
    seconds, for a whole answer.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        input: str,
        output: TensorSpec,
        gives: Literal["probabilities", "logits"] = "probabilities",
        version: str = "",
        timeout: float = 10.0,
        connections: int = 64,
    ) -> None:
        self.input = input
        self.output = output
        self.gives = gives
        self._model = f"/v2/models/{quote(model, safe='')}"
        if version:
            self._model += f"/versions/{quote(version, safe='')}"
        self._binary: bool | None = None  # until the server was asked
        self._caller = Caller(url, timeout=timeout, connections=connections, most=MOST)

    async def predict(self, rows: Array) -> Probabilities:
        """The checked predictions `(n, classes)`; the rows go in one request, as they came."""
        if self._binary is None:
            self._binary = await self._has_binary()
        content, headers = self._question(rows, binary=self._binary)
        response = await self._ask("POST", f"{self._model}/infer", content, headers)
        try:
            array = self._read(response, len(rows))
        except NotFinite:
            raise
        except (PredictionError, Refusal, LookupError, TypeError, ValueError, AttributeError) as error:
            # The reason may quote what came, so it goes to our log and no further.
            raise PredictionError(f"The upstream's answer cannot be used: {error}") from error
        return softmax(array) if self.gives == "logits" else array

    async def ready(self) -> bool:
        """Whether the upstream says that its model is."""
        try:
            await self._ask("GET", f"{self._model}/ready")
        except Unavailable:
            return False
        return True

    async def close(self) -> None:
        """Close the connections."""
        await self._caller.close()

    async def _has_binary(self) -> bool:
        try:
            told = orjson.loads((await self._ask("GET", "/v2")).content)
        except orjson.JSONDecodeError:
            return False
        return isinstance(told, dict) and "binary_tensor_data" in (told.get("extensions") or ())

    async def _ask(
        self, method: str, path: str, content: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Reply:
        try:
            response = await self._caller.ask(method, path, content, headers)
        except NotReached as error:
            log.warning("The upstream cannot be reached: %s", error)
            raise Unavailable("The model cannot be reached now. Ask again.") from error
        if response.status != 200:
            log.warning("The upstream says %d to %s %s: %r", response.status, method, path, response.content[:500])
            raise Unavailable("The model does not answer now. Ask again.")
        return response

    def _question(self, rows: Array, *, binary: bool) -> tuple[bytes, dict[str, str]]:
        tensor: dict[str, Any] = {"name": self.input, "shape": rows.shape, "datatype": datatype_of(rows)}
        output: dict[str, Any] = {"name": self.output.name}
        told = {"inputs": [tensor], "outputs": [output]}
        if not binary:
            # A list, because orjson reads no float16 array; a float's shortest decimal gives the same float again.
            tensor["data"] = rows.ravel().tolist()
            return orjson.dumps(told), {"Content-Type": JSON}
        raw = rows.tobytes()
        tensor["parameters"] = {"binary_data_size": len(raw)}
        output["parameters"] = {"binary_data": True}
        header = orjson.dumps(told)
        return header + raw, {"Content-Type": BINARY, HEADER_LENGTH: str(len(header))}

    def _read(self, response: Reply, rows: int) -> Probabilities:
        """The one tensor that was asked for, if the response holds it as it should be."""
        body = response.content
        end = int(response.headers.get(_HEADER_LENGTH, len(body)))
        told = orjson.loads(body[:end])
        for one in told["outputs"]:
            size = (one.get("parameters") or {}).get("binary_data_size")
            raw, end = body[end : end + (size or 0)], end + (size or 0)
            if one["name"] == self.output.name:
                break
        else:
            raise PredictionError(f"it has no output '{self.output.name}'")
        shape, datatype = one["shape"], one["datatype"]
        wanted = [rows, *self.output.shape]
        if shape != wanted or datatype not in ("FP16", "FP32", "FP64"):
            raise PredictionError(f"'{self.output.name}' is {datatype} of {shape} and not floats of {wanted}")
        most = math.prod(wanted)
        if size is None:
            array = from_numbers(one["data"], datatype, shape, self.output.name, most)
        else:
            array = from_bytes(raw, datatype, shape, self.output.name, most)
        if not np.isfinite(array).all():
            raise NotFinite(f"'{self.output.name}' holds NaN or infinity")
        return array
