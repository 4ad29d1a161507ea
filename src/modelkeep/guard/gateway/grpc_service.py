"""The gateway's gRPC side: the same service behind the Open Inference Protocol's GRPCInferenceService.

Messages are parsed here and not by grpc, whose answer to bytes that are not a message would be an internal error.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from modelkeep.core.errors import MissingExtra
from modelkeep.guard.gateway.service import Service
from modelkeep.guard.protocol import inference_pb2 as pb
from modelkeep.guard.protocol.grpc_messages import build_response, parse_request
from modelkeep.guard.refusals import Malformed, Refusal

try:
    import grpc
    from google.protobuf.message import DecodeError, Message
except ImportError as missing:
    raise MissingExtra("guard", "grpcio", "The gateway's gRPC side") from missing

log = logging.getLogger(__name__)
_SERVICE = "inference.GRPCInferenceService"
Context = Any  # grpc.aio.ServicerContext[bytes, bytes], whose stubs are not generic at run time
M = TypeVar("M", bound=Message)


def create_server(service: Service) -> grpc.aio.Server:
    """A server that speaks for the service; give it a port, and start it."""
    # What a client may send is bounded twice: here in bytes, and by the service in rows.
    # Without sharing of ports: another process must not get half of the calls, unguarded, by listening on ours too.
    server = grpc.aio.server(
        options=[("grpc.max_receive_message_length", service.most_bytes), ("grpc.so_reuseport", 0)]
    )
    endpoints: dict[str, Callable[[bytes, Context], Awaitable[Message]]] = {
        "ServerLive": lambda raw, _: _live(raw),
        "ServerReady": lambda raw, _: _ready(service, raw),
        "ModelReady": lambda raw, _: _model_ready(service, raw),
        "ServerMetadata": lambda raw, _: _server_metadata(service, raw),
        "ModelMetadata": lambda raw, _: _model_metadata(service, raw),
        "ModelInfer": lambda raw, context: _infer(service, raw, context),
    }
    handlers = {name: grpc.unary_unary_rpc_method_handler(_endpoint(answer)) for name, answer in endpoints.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
    return server


def _endpoint(answer: Callable[[bytes, Context], Awaitable[Message]]) -> Callable[[bytes, Context], Awaitable[bytes]]:
    """From bytes to bytes, with refusals as statuses."""

    async def endpoint(raw: bytes, context: Context) -> bytes:
        try:
            return (await answer(raw, context)).SerializeToString()
        except Refusal as refusal:
            metadata = tuple((name.lower(), value) for name, value in refusal.headers.items())
            await context.abort(grpc.StatusCode[refusal.code], refusal.message, metadata)
            raise AssertionError("abort raises") from refusal
        except Exception as error:  # grpc would tell the client its text
            log.exception("A call failed in an unforeseen way.")
            await context.abort(grpc.StatusCode.INTERNAL, "The gateway failed; its log says why.")
            raise AssertionError("abort raises") from error

    return endpoint


def _parse(kind: type[M], raw: bytes) -> M:
    try:
        return kind.FromString(raw)
    except DecodeError:
        raise Malformed(f"The bytes are no {kind.__name__}.") from None


async def _live(raw: bytes) -> Message:
    _parse(pb.ServerLiveRequest, raw)
    return pb.ServerLiveResponse(live=True)


async def _ready(service: Service, raw: bytes) -> Message:
    _parse(pb.ServerReadyRequest, raw)
    return pb.ServerReadyResponse(ready=await service.ready())


async def _model_ready(service: Service, raw: bytes) -> Message:
    asked = _parse(pb.ModelReadyRequest, raw)
    service.require(asked.name, asked.version)
    return pb.ModelReadyResponse(ready=await service.ready())


async def _server_metadata(service: Service, raw: bytes) -> Message:
    _parse(pb.ServerMetadataRequest, raw)
    return pb.ServerMetadataResponse(**service.server_metadata())


async def _model_metadata(service: Service, raw: bytes) -> Message:
    asked = _parse(pb.ModelMetadataRequest, raw)
    service.require(asked.name, asked.version)
    return pb.ModelMetadataResponse(**service.model_metadata())


async def _infer(service: Service, raw: bytes, context: Context) -> Message:
    metadata: Mapping[str, str | bytes] = dict(context.invocation_metadata() or ())
    authorization = metadata.get("authorization")

    async def read() -> Any:
        return parse_request(_parse(pb.ModelInferRequest, raw))

    return build_response(await service.infer(authorization if isinstance(authorization, str) else None, read))
