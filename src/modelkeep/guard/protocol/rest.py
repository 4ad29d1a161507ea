"""Requests and responses of the Open Inference Protocol over REST: JSON, and Triton's binary tensor data extension.

What is not understood is refused, never passed on: a parameter that we do not know may ask some server for more than
the one tensor that may leave.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import orjson

from modelkeep.guard.protocol.messages import InferenceRequest, InferenceResponse, Tensor
from modelkeep.guard.protocol.tensors import DTYPES, ELEMENTS, datatype_of, from_bytes, from_numbers, short
from modelkeep.guard.refusals import Malformed

HEADER_LENGTH: Final = "Inference-Header-Content-Length"
JSON: Final = "application/json"
BINARY: Final = "application/octet-stream"


def parse_request(
    body: bytes, model: str, version: str = "", header_length: str | None = None, most: int = ELEMENTS
) -> InferenceRequest:
    """The request that a body holds; `header_length` is the value of Inference-Header-Content-Length, if it was sent.

    >>> body = b'{"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [0.5, 1]}]}'
    >>> parse_request(body, "digits").inputs[0].array
    array([[0.5, 1. ]], dtype=float32)
    """
    end = len(body) if header_length is None else _length(header_length, len(body))
    try:
        told = orjson.loads(memoryview(body)[:end])
    except orjson.JSONDecodeError as error:
        raise Malformed(f"The body is not JSON: {error}.") from None
    if not isinstance(told, dict):
        raise Malformed(f"The body must be a JSON object with 'inputs'. Got a {type(told).__name__}.")
    parameters = _parameters_of(told, "the request", {"binary_data_output": bool})
    inputs, used = _inputs(told.get("inputs"), memoryview(body)[end:], most)
    if used != len(body) - end:
        raise Malformed(f"{len(body) - end} bytes follow the JSON, but the inputs' binary_data_size sum to {used}.")
    outputs, binary = _outputs(told.get("outputs"), parameters.get("binary_data_output", False))
    return InferenceRequest(model, version, _text(told, "id", "the request"), inputs, outputs, binary)


def build_response(response: InferenceResponse) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of an answer."""
    array = response.output.array
    output: dict[str, Any] = {
        "name": response.output.name,
        "shape": array.shape,
        "datatype": datatype_of(array),
    }
    told: dict[str, Any] = {"model_name": response.model, "model_version": response.version, "outputs": [output]}
    if response.id:
        told["id"] = response.id
    if not response.binary:
        # Written as float64, a float32 is the same number to a reader of either; its shortest decimal would not be.
        output["data"] = array.ravel().astype(np.float64) if array.dtype.kind == "f" else array.ravel()
        return orjson.dumps(told, option=orjson.OPT_SERIALIZE_NUMPY), {"Content-Type": JSON}
    raw = array.astype(DTYPES[datatype_of(array)], copy=False).tobytes()
    output["parameters"] = {"binary_data_size": len(raw)}
    header = orjson.dumps(told)
    return header + raw, {"Content-Type": BINARY, HEADER_LENGTH: str(len(header))}


def _parameters_of(owner: Mapping[str, Any], what: str, allowed: Mapping[str, type]) -> dict[str, Any]:
    """The parameters of a part of a request, each of them known and of its type."""
    parameters = owner.get("parameters")
    if parameters is None:
        return {}
    if not isinstance(parameters, dict):
        raise Malformed(f"The parameters of {what} must be an object. Got a {type(parameters).__name__}.")
    for name, value in parameters.items():
        if name not in allowed:
            known = ", ".join(map(repr, allowed)) or "none"
            raise Malformed(f"The parameter {name[:60]!r} of {what} is not allowed here. Allowed: {known}.")
        if type(value) is not allowed[name]:
            raise Malformed(f"The parameter '{name}' of {what} must be of type {allowed[name].__name__}.")
    return parameters


def _length(told: str, body: int) -> int:
    # isdecimal alone would let int() read the digits of every script; int alone, '+1', '1_0' and ' 1'.
    if not (told.isascii() and told.isdecimal() and len(told) < 20) or int(told) > body:
        raise Malformed(f"{HEADER_LENGTH} must be a number from 0 to the body's length of {body}. Got {told[:60]!r}.")
    return int(told)


def _text(owner: Mapping[str, Any], key: str, what: str, *, empty: bool = True) -> str:
    value = owner.get(key)
    if value is None and empty:
        return ""
    if not isinstance(value, str) or not (value or empty) or len(value) > 256:
        raise Malformed(f"The '{key}' of {what} must be a string of at most 256 characters. Got {short(value)}.")
    return value


def _inputs(told: object, binary: memoryview, most: int) -> tuple[tuple[Tensor, ...], int]:
    """The input tensors, and how many bytes of the binary data they took."""
    inputs: dict[str, Tensor] = {}
    used = 0
    for one in _objects(told, "inputs"):
        name = _text(one, "name", "an input", empty=False)
        if name in inputs:
            raise Malformed(f"Two inputs have the name '{name}'.")
        # MLServer's clients say "np" for what every tensor here is.
        parameters = _parameters_of(one, f"input '{name}'", {"binary_data_size": int, "content_type": str})
        if parameters.get("content_type", "np") != "np":
            raise Malformed(f"The content_type of input '{name}' must be 'np' or left out.")
        shape, datatype, size = one.get("shape"), one.get("datatype"), parameters.get("binary_data_size")
        if size is None:
            array = from_numbers(one.get("data"), datatype, shape, name, most)
        elif "data" in one:
            raise Malformed(f"Input '{name}' has both 'data' and 'binary_data_size'. Send one of them.")
        elif not 0 <= size <= len(binary) - used:
            raise Malformed(
                f"Input '{name}' says that it has {size} bytes of binary data, but {len(binary) - used} are left. "
                f"Is the body cut off, or {HEADER_LENGTH} missing?"
            )
        else:
            array = from_bytes(binary[used : used + size], datatype, shape, name, most)
            used += size
        inputs[name] = Tensor(name, array)
    if not inputs:
        raise Malformed("The request has no inputs.")
    return tuple(inputs.values()), used


def _outputs(told: object, all_binary: bool) -> tuple[tuple[str, ...], bool]:
    """The outputs that were asked for, and whether as binary data: one answer will do, as one output leaves."""
    names: list[str] = []
    for one in () if told is None else _objects(told, "outputs"):
        name = _text(one, "name", "an output", empty=False)
        if name in names:
            raise Malformed(f"Two outputs have the name '{name}'.")
        names.append(name)
        all_binary = _parameters_of(one, f"output '{name}'", {"binary_data": bool}).get("binary_data", all_binary)
    return tuple(names), all_binary


def _objects(told: object, what: str) -> list[dict[str, Any]]:
    if not isinstance(told, list) or not all(isinstance(one, dict) for one in told) or len(told) > 64:
        raise Malformed(f"The '{what}' must be a list of at most 64 objects. Got {short(told)}.")
    return told
