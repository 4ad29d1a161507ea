"""gRPC: the same service, the same answers; and no bytes that make it fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from guard.gateway.gateways import CLASSES, SHAPE, Running, running, small_service
from modelkeep.guard.gateway.principals import add_key
from modelkeep.guard.protocol import inference_pb2 as pb
from modelkeep.guard.protocol.tensors import Array
from modelkeep.guard.store.store import Principal
from processes import PATIENCE

METHODS = ("ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelInfer")
ROWS = np.linspace(0, 1, 12, dtype=np.float32).reshape(2, *SHAPE)
Call = Callable[..., bytes]


def asked(channel: grpc.Channel, method: str) -> Call:
    return channel.unary_unary(f"/inference.GRPCInferenceService/{method}", bytes, bytes)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(small_service(tmp_path_factory.mktemp("gateway"))) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def call(gateway: Running) -> Iterator[Call]:
    with grpc.insecure_channel(f"127.0.0.1:{gateway.grpc}") as channel:
        yield lambda method, raw: asked(channel, method)(raw, timeout=PATIENCE)


def question(rows: Array, *, raw: bool) -> bytes:
    told = pb.ModelInferRequest(model_name="small", id="7")
    tensor = told.inputs.add(name="input", datatype="FP32", shape=rows.shape)
    if raw:
        told.raw_input_contents.append(rows.tobytes())
    else:
        tensor.contents.fp32_contents.extend(rows.ravel().tolist())
    return told.SerializeToString()


def answer(raw: bytes) -> Array:
    told = pb.ModelInferResponse.FromString(raw)
    (output,) = told.outputs
    assert (told.model_name, told.model_version, told.id) == ("small", "1", "7")
    assert (output.name, output.datatype) == ("probabilities", "FP32")
    numbers = (
        np.frombuffer(told.raw_output_contents[0], np.float32)
        if told.raw_output_contents
        else np.array(output.contents.fp32_contents, np.float32)
    )
    return numbers.reshape(output.shape)


def code(error: pytest.ExceptionInfo[grpc.RpcError]) -> grpc.StatusCode:
    assert isinstance(error.value, grpc.Call)
    return error.value.code()


def test_the_protocols_methods_answer(call: Call) -> None:
    assert pb.ServerLiveResponse.FromString(call("ServerLive", b"")).live
    assert pb.ServerReadyResponse.FromString(call("ServerReady", b"")).ready
    named = pb.ModelReadyRequest(name="small", version="1").SerializeToString()
    assert pb.ModelReadyResponse.FromString(call("ModelReady", named)).ready
    assert pb.ServerMetadataResponse.FromString(call("ServerMetadata", b"")).name == "modelkeep"
    metadata = pb.ModelMetadataResponse.FromString(call("ModelMetadata", named))
    assert [list(tensor.shape) for tensor in metadata.inputs] == [[-1, *SHAPE]]
    assert [list(tensor.shape) for tensor in metadata.outputs] == [[-1, CLASSES]]


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=hnp.arrays(np.float32, (2, *SHAPE), elements=st.floats(-9, 9, width=32)))
def test_one_row_gets_the_same_bits_on_every_way(gateway: Running, call: Call, rows: Array) -> None:
    by_rest = httpx.post(
        f"{gateway.url}/v2/models/small/infer",
        json={"inputs": [{"name": "input", "shape": rows.shape, "datatype": "FP32", "data": rows.ravel().tolist()}]},
        timeout=PATIENCE,
    ).json()["outputs"][0]["data"]
    expected = np.array(by_rest, np.float32).tobytes()
    assert answer(call("ModelInfer", question(rows, raw=True))).tobytes() == expected
    assert answer(call("ModelInfer", question(rows, raw=False))).tobytes() == expected
    alone = [answer(call("ModelInfer", question(row[None], raw=True))).tobytes() for row in rows]
    assert b"".join(alone) == expected


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(method=st.sampled_from(METHODS), noise=st.binary(max_size=60), after=st.booleans())
def test_no_bytes_make_it_fail(call: Call, method: str, noise: bytes, after: bool) -> None:
    raw = question(ROWS, raw=True) + noise if after and method == "ModelInfer" else noise
    outcome: object = None
    try:
        call(method, raw)
    except grpc.RpcError as error:
        outcome = error.code() if isinstance(error, grpc.Call) else error
    assert outcome in (None, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)


def test_a_method_that_is_not_there_is_unimplemented(call: Call) -> None:
    with pytest.raises(grpc.RpcError) as error:
        call("RepositoryIndex", b"")
    assert code(error) is grpc.StatusCode.UNIMPLEMENTED


def test_wishes_beyond_the_one_tensor_are_refused(call: Call) -> None:
    told = pb.ModelInferRequest.FromString(question(ROWS, raw=True))
    told.outputs.add(name="logits")
    with pytest.raises(grpc.RpcError) as error:
        call("ModelInfer", told.SerializeToString())
    assert code(error) is grpc.StatusCode.INVALID_ARGUMENT
    told.model_name = "other"
    with pytest.raises(grpc.RpcError) as error:
        call("ModelInfer", told.SerializeToString())
    assert code(error) is grpc.StatusCode.NOT_FOUND


def test_a_message_above_the_limit_is_refused(gateway: Running, call: Call) -> None:
    with pytest.raises(grpc.RpcError) as error:
        call("ModelInfer", bytes(gateway.service.most_bytes + 1))
    assert code(error) is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_only_a_known_key_is_answered_and_only_as_often_as_it_may(tmp_path: Path) -> None:
    service = small_service(tmp_path, open=False)
    key = add_key(service.principals.store, Principal("ann", queries=3, rate=None))
    with running(service) as gateway, grpc.insecure_channel(f"127.0.0.1:{gateway.grpc}") as channel:
        infer = asked(channel, "ModelInfer")
        with pytest.raises(grpc.RpcError) as error:
            infer(question(ROWS, raw=True), timeout=PATIENCE)
        assert code(error) is grpc.StatusCode.UNAUTHENTICATED
        metadata = (("authorization", f"Bearer {key}"),)
        assert answer(infer(question(ROWS, raw=True), timeout=PATIENCE, metadata=metadata)).shape == (2, CLASSES)
        with pytest.raises(grpc.RpcError) as error:
            infer(question(ROWS, raw=True), timeout=PATIENCE, metadata=metadata)
        assert code(error) is grpc.StatusCode.RESOURCE_EXHAUSTED
