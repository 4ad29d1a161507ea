"""Requests and responses of the Open Inference Protocol over gRPC: typed contents, or raw bytes.

As over REST, what is not understood is refused: here no parameter is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelkeep.guard.protocol import inference_pb2 as pb
from modelkeep.guard.protocol.messages import InferenceRequest, InferenceResponse, Tensor
from modelkeep.guard.protocol.tensors import DTYPES, ELEMENTS, Array, datatype_of, dtype_of, from_bytes, from_numbers
from modelkeep.guard.refusals import Malformed

CONTENTS = {
    "BOOL": "bool_contents",
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    "INT64": "int64_contents",
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
}


def parse_request(told: pb.ModelInferRequest, most: int = ELEMENTS) -> InferenceRequest:
    """The request that a message holds. If it came as raw contents, so will the answer."""
    _no_parameters(told.parameters, "the request")
    texts = [told.id, *(one.name for one in told.inputs), *(one.name for one in told.outputs)]
    if any(len(text) > 256 for text in texts):  # a refusal that quoted it would be too long for gRPC itself
        raise Malformed("The id and the names of tensors may have at most 256 characters.")
    raw = told.raw_input_contents
    if raw and len(raw) != len(told.inputs):
        raise Malformed(f"There are {len(told.inputs)} inputs, but {len(raw)} raw_input_contents. Send one for each.")
    inputs: dict[str, Tensor] = {}
    for position, one in enumerate(told.inputs):
        if not one.name or one.name in inputs:
            raise Malformed("Every input must have a name of its own.")
        _no_parameters(one.parameters, f"input '{one.name}'")
        if not raw:
            array = _from_contents(one, most)
        elif one.HasField("contents"):
            raise Malformed(f"Input '{one.name}' has both contents and raw_input_contents. Send one of them.")
        else:
            array = from_bytes(raw[position], one.datatype, list(one.shape), one.name, most)
        inputs[one.name] = Tensor(one.name, array)
    if not inputs:
        raise Malformed("The request has no inputs.")
    for output in told.outputs:
        _no_parameters(output.parameters, f"output '{output.name}'")
    outputs = tuple(output.name for output in told.outputs)
    return InferenceRequest(
        told.model_name, told.model_version, told.id, tuple(inputs.values()), outputs, binary=bool(raw)
    )


def build_response(response: InferenceResponse) -> pb.ModelInferResponse:
    """The message of an answer."""
    told = pb.ModelInferResponse(model_name=response.model, model_version=response.version, id=response.id)
    array = response.output.array
    datatype = datatype_of(array)
    output = told.outputs.add(name=response.output.name, datatype=datatype, shape=array.shape)
    if response.binary:
        told.raw_output_contents.append(array.astype(DTYPES[datatype], copy=False).tobytes())
    else:
        getattr(output.contents, CONTENTS[datatype]).extend(array.ravel().tolist())
    return told


def _from_contents(one: pb.ModelInferRequest.InferInputTensor, most: int) -> Array:
    dtype_of(one.datatype, one.name)
    field = CONTENTS.get(one.datatype)
    if field is None:
        raise Malformed(f"Input '{one.name}' is of {one.datatype}, which has no typed contents. Send it raw.")
    others = [descriptor.name for descriptor, _ in one.contents.ListFields() if descriptor.name != field]
    if others:
        raise Malformed(f"Input '{one.name}' is of {one.datatype}, so it belongs into {field} and not {others[0]}.")
    return from_numbers(list(getattr(one.contents, field)), one.datatype, list(one.shape), one.name, most)


def _no_parameters(parameters: Mapping[str, Any], what: str) -> None:
    for name in parameters:
        raise Malformed(f"The parameter {name[:60]!r} of {what} is not allowed here. Allowed: none.")
