"""The gateway's REST side: the routes of the Open Inference Protocol, and a document that says what they do.

Bodies are read and built by hand: at thousands of requests per second, to validate them a second time would cost more
than to guard them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import BaseModel

from modelkeep.core.errors import MissingExtra
from modelkeep.core.version import __version__
from modelkeep.guard.gateway import schemas
from modelkeep.guard.gateway.body import SMALL, check_json_size, read_body
from modelkeep.guard.gateway.service import Service
from modelkeep.guard.protocol.messages import InferenceRequest
from modelkeep.guard.protocol.rest import BINARY, HEADER_LENGTH, JSON, build_response, parse_request
from modelkeep.guard.refusals import Refusal

try:
    from fastapi import FastAPI, Request, Response
    from starlette.exceptions import HTTPException
    from starlette.routing import Route
except ImportError as missing:
    raise MissingExtra("guard", "fastapi", "The gateway") from missing

_REFUSALS = {
    400: "The request is not one that the protocol or the model's inputs allow.",
    401: "No key, or none that is known.",
    404: "There is no such model or version here.",
    415: "The body is compressed in another way than by gzip.",
    413: "The request has more bytes or rows than the gateway takes at once.",
    429: "The rate or the budget of this key is used up.",
    500: "The gateway failed.",
    502: "The model did not give a prediction.",
    503: "The store or the model cannot be reached now.",
}


def create_app(service: Service) -> FastAPI:
    """The ASGI application in front of a service."""
    app = FastAPI(
        title="ModelKeep guard",
        version=__version__,
        description=f"The model '{service.model}' behind the Open Inference Protocol v2.",
        docs_url=None,  # its page would load scripts from a third party
        redoc_url=None,
        redirect_slashes=False,
    )

    async def live() -> Response:
        return _json_response({"live": True})

    async def ready() -> Response:
        is_ready = await service.ready()
        return _json_response({"ready": is_ready}, status=200 if is_ready else 503)

    async def server() -> Response:
        return _json_response(service.server_metadata())

    async def metadata(model: str, version: str = "") -> Response:
        service.require(model, version)
        return _json_response(service.model_metadata())

    async def model_ready(model: str, version: str = "") -> Response:
        service.require(model, version)
        is_ready = await service.ready()
        return _json_response({"name": service.model, "ready": is_ready}, status=200 if is_ready else 503)

    async def infer(request: Request) -> Response:
        async def read() -> InferenceRequest:
            path = request.path_params
            body = await read_body(request, service.most_bytes)
            header_length = request.headers.get(HEADER_LENGTH)
            told = path["model"], path.get("version", ""), header_length
            if len(body) <= SMALL:  # to change threads would take longer
                return parse_request(body, *told)
            check_json_size(body, header_length, service.most_json)
            return await asyncio.to_thread(parse_request, body, *told)

        content, headers = build_response(await service.infer(request.headers.get("authorization"), read))
        return Response(content, headers=headers)

    app.get("/v2/health/live", responses=_document(schemas.Live))(live)
    app.get("/v2/health/ready", responses=_document(schemas.Ready) | {503: {"model": schemas.Ready}})(ready)
    app.get("/v2", responses=_document(schemas.ServerMetadata))(server)
    app.get("/v2/", include_in_schema=False)(server)
    for path in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
        app.get(path, responses=_document(schemas.ModelMetadata, 404))(metadata)
        app.get(f"{path}/ready", responses=_document(schemas.ModelReady, 404) | {503: {"model": schemas.ModelReady}})(
            model_ready
        )
        app.post(f"{path}/infer", responses=_document(schemas.InferResponse, *_REFUSALS))(infer)
        # FastAPI's route is for the document; this one is found first, and answers without solving dependencies.
        app.router.routes.insert(0, Route(f"{path}/infer", infer, methods=["POST"]))
    app.add_exception_handler(Refusal, _answer_refusal)
    app.add_exception_handler(HTTPException, _answer_no_route)
    app.add_exception_handler(Exception, _answer_failure)
    _complete(app.openapi(), needs_key=not service.principals.open)
    return app


def _json_response(content: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON response."""
    return Response(orjson.dumps(content), status, headers, JSON)


def _answer_refusal(_: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, Refusal)
    return _json_response({"error": refusal.message}, refusal.status, refusal.headers)


def _answer_no_route(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json_response({"error": f"{error.detail}."}, error.status_code, error.headers)


def _answer_failure(_: Request, __: Exception) -> Response:
    return _json_response({"error": "The gateway failed; its log says why."}, 500)


def _document(model: type[BaseModel], *refusals: int) -> dict[int | str, dict[str, Any]]:
    told: dict[int | str, dict[str, Any]] = {200: {"model": model, "description": "The answer."}}
    for status in refusals:
        told[status] = {"model": schemas.Failure, "description": _REFUSALS[status]}
    return told


_NAME = {"in": "path", "required": True, "schema": {"type": "string"}}
_BYTES = {"type": "string", "format": "binary"}
_HEADER = {
    "name": HEADER_LENGTH,
    "in": "header",
    "required": False,
    "description": "The length of the JSON, if binary tensor data follow it.",
    "schema": {"type": "integer", "minimum": 0},
}
_BODY = {
    "required": True,
    "content": {JSON: {"schema": {"$ref": "#/components/schemas/InferRequest"}}, BINARY: {"schema": _BYTES}},
}


def _complete(document: dict[str, Any], *, needs_key: bool) -> None:
    """Say in the OpenAPI document what FastAPI cannot see: bodies that are read by hand, binary answers, the key."""
    parts = document["components"]
    request = schemas.InferRequest.model_json_schema(ref_template="#/components/schemas/{model}")
    parts["schemas"] |= request.pop("$defs") | {"InferRequest": request}
    parts["schemas"].pop("HTTPValidationError", None)
    parts["schemas"].pop("ValidationError", None)
    for path, operations in document["paths"].items():
        for operation in operations.values():
            operation["responses"].pop("422", None)  # FastAPI's own form of 400, which nothing here raises
            if path.endswith("/infer"):
                names = [name for name in ("model", "version") if f"{{{name}}}" in path]
                operation["parameters"] = [*({"name": name, **_NAME} for name in names), _HEADER]
                operation["requestBody"] = _BODY
                operation["responses"]["200"]["content"][BINARY] = {"schema": _BYTES}
                operation["responses"]["429"]["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
                if needs_key:
                    operation["security"] = [{"key": []}]
    if needs_key:
        parts["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
