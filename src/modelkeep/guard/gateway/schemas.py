"""The bodies of the REST interface, for its OpenAPI document only: protocol/rest.py reads the requests."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from modelkeep.guard.protocol.tensors import DTYPES

Name = Annotated[str, Field(min_length=1, max_length=256)]
_Datatype = Annotated[str, Field(json_schema_extra={"enum": list(DTYPES)})]


class Known(BaseModel):
    """An object in which what is not known is refused."""

    model_config = ConfigDict(extra="forbid")


class InputParameters(Known):
    """`binary_data_size`: how many bytes of the binary data, which follows the JSON, are this tensor's."""

    binary_data_size: Annotated[int, Field(ge=0)] = 0
    content_type: Literal["np"] = "np"


class OutputParameters(Known):
    """`binary_data`: this output is wanted as binary data."""

    binary_data: bool = False


class RequestParameters(Known):
    """`binary_data_output`: outputs are wanted as binary data."""

    binary_data_output: bool = False


class InputTensor(BaseModel):
    """An input: `data` is flat in row-major order, or lists within lists; there is none if it follows as binary."""

    name: Name
    shape: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1, max_length=16)]
    datatype: _Datatype
    parameters: InputParameters | None = None
    data: Annotated[list[bool | float | list[object]], Field(min_length=1)] = []


class RequestedOutput(BaseModel):
    """An output that is asked for."""

    name: Name
    parameters: OutputParameters | None = None


class InferRequest(BaseModel):
    """A request for inference: inputs in any number of rows."""

    id: Annotated[str, Field(max_length=256)] | None = None
    parameters: RequestParameters | None = None
    inputs: Annotated[list[InputTensor], Field(min_length=1, max_length=64)]
    outputs: Annotated[list[RequestedOutput], Field(max_length=64)] | None = None


class BinarySize(BaseModel):
    """How many of the bytes that follow the JSON are this tensor's."""

    binary_data_size: int


class OutputTensor(BaseModel):
    """The guarded probabilities, in row-major order."""

    name: str
    shape: list[int]
    datatype: Literal["FP32"]
    parameters: BinarySize | None = None
    data: list[float] = []


class InferResponse(BaseModel):
    """The answer to a request for inference."""

    model_name: str
    model_version: str
    id: str = ""
    outputs: list[OutputTensor]


class TensorMetadata(BaseModel):
    """What a tensor must look like; -1 is any number of rows."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(BaseModel):
    """What the model takes and gives."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class ServerMetadata(BaseModel):
    """What this server is."""

    name: str
    version: str
    extensions: list[str]


class Live(BaseModel):
    """Whether the server runs."""

    live: bool


class Ready(BaseModel):
    """Whether a query would be answered now."""

    ready: bool


class ModelReady(BaseModel):
    """Whether a query to this model would be answered now."""

    name: str
    ready: bool


class Failure(BaseModel):
    """What was wrong, and what is allowed."""

    error: str
