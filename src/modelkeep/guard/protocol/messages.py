"""What is asked and answered, whichever way it came: JSON, JSON with binary data, or gRPC."""

from __future__ import annotations

from dataclasses import dataclass

from modelkeep.guard.protocol.tensors import Array


@dataclass(frozen=True, eq=False)
class Tensor:
    """A named array; that of a request is in the sender's own datatype."""

    name: str
    array: Array


@dataclass(frozen=True, eq=False)
class InferenceRequest:
    """A request for inference. `binary`: the answer is wanted as bytes, not as numbers.

    `outputs` are the names that were asked for; none means that none was named. `version` and `id` are empty likewise.
    """

    model: str
    version: str
    id: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[str, ...] = ()
    binary: bool = False


@dataclass(frozen=True, eq=False)
class InferenceResponse:
    """The answer: one tensor, and nothing else that the model may have computed."""

    model: str
    version: str
    id: str
    output: Tensor
    binary: bool = False
