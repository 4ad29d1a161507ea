"""REST bodies: what the protocol allows is read, and everything else is refused with a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkeep.guard.protocol.messages import InferenceResponse, Tensor
from modelkeep.guard.protocol.rest import HEADER_LENGTH, build_response, parse_request
from modelkeep.guard.refusals import Malformed, Refusal

X: dict[str, Any] = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}
RAW: dict[str, Any] = {"name": "x", "shape": [2], "datatype": "UINT8", "parameters": {"binary_data_size": 2}}


def request(**changes: object) -> bytes:
    return orjson.dumps({"inputs": [X]} | changes)


def test_a_request_is_read_whole() -> None:
    body = request(id="7", outputs=[{"name": "y", "parameters": {"binary_data": True}}], parameters={})
    read = parse_request(body, "m", "2")
    assert (read.model, read.version, read.id, read.outputs, read.binary) == ("m", "2", "7", ("y",), True)


@pytest.mark.parametrize(("whole", "one", "binary"), [(True, None, True), (True, False, False), (None, True, True)])
def test_an_outputs_own_wish_for_binary_data_wins(whole: bool | None, one: bool | None, binary: bool) -> None:
    parameters = {} if whole is None else {"binary_data_output": whole}
    output = {"name": "y", "parameters": {} if one is None else {"binary_data": one}}
    assert parse_request(request(parameters=parameters, outputs=[output]), "m").binary is binary
    assert parse_request(request(parameters=parameters), "m").binary is bool(whole)


def test_binary_tensors_follow_each_other_and_may_mix_with_numbers() -> None:
    header = orjson.dumps({"inputs": [RAW, {**X, "name": "y"}, {**RAW, "name": "z"}]})
    read = parse_request(header + b"\1\2\3\4", "m", header_length=str(len(header)))
    assert [one.array.ravel().tolist() for one in read.inputs] == [[1, 2], [1, 2], [3, 4]]


def test_unknown_fields_are_ignored_and_null_is_nothing() -> None:
    assert parse_request(request(model_name="z", id=None, outputs=None, parameters=None), "m").id == ""


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"inputs": [NaN]}', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "JSON object"),
        (b"{}", "'inputs' must be a list"),
        (request(inputs={}), "'inputs' must be a list"),
        (request(inputs=[]), "no inputs"),
        (request(inputs=[X] * 65), "at most 64"),
        (request(inputs=["x"]), "'inputs' must be a list"),
        (request(inputs=[X, X]), "Two inputs"),
        (request(inputs=[{**X, "name": ""}]), "'name' of an input"),
        (request(inputs=[{**X, "name": 1}]), "'name' of an input"),
        (request(inputs=[{"name": "x"}]), "datatype"),
        (request(inputs=[{**X, "data": None}]), "list of numbers"),
        (request(inputs=[{**X, "parameters": {"shared_memory_region": "r"}}]), "shared_memory_region"),
        (request(inputs=[{**X, "parameters": {"binary_data_size": True}}]), "type int"),
        (request(inputs=[{**X, "parameters": {"binary_data_size": 8}}]), "both"),
        (request(inputs=[{**X, "parameters": {"content_type": "str"}}]), "must be 'np'"),
        (request(inputs=[{**X, "parameters": []}]), "must be an object"),
        (request(inputs=[RAW]), "0 are left"),
        (request(id=7), "'id'"),
        (request(id="7" * 257), "'id'"),
        (request(parameters={"sequence_id": 1}), "sequence_id"),
        (request(parameters={"binary_data_output": 1}), "type bool"),
        (request(outputs=[{"name": "y", "parameters": {"classification": 3}}]), "classification"),
        (request(outputs=[{"name": "y"}, {"name": "y"}]), "Two outputs"),
        (request(outputs="y"), "'outputs' must be a list"),
        (request(outputs=[{}]), "'name' of an output"),
    ],
)
def test_what_is_wrong_is_refused_with_a_sentence(body: bytes, says: str) -> None:
    with pytest.raises(Malformed, match=says):
        parse_request(body, "m")


@pytest.mark.parametrize("length", ["-1", "+1", "1_0", " 1", "", "x", "9999", "1.0", "٣", "9" * 30])
def test_a_header_length_that_is_none_is_refused(length: str) -> None:
    with pytest.raises(Malformed, match=HEADER_LENGTH):
        parse_request(request(), "m", header_length=length)


@pytest.mark.parametrize("extra", [b"\1", b"\1\2\3"])
def test_binary_data_that_are_cut_off_or_left_over_are_refused(extra: bytes) -> None:
    header = orjson.dumps({"inputs": [RAW]})
    with pytest.raises(Malformed, match=r"left|follow"):
        parse_request(header + extra, "m", header_length=str(len(header)))


@given(st.binary(max_size=64), st.none() | st.text(max_size=4) | st.integers(0, 70).map(str))
def test_random_bytes_are_refused(body: bytes, length: str | None) -> None:
    with pytest.raises(Refusal):
        parse_request(body, "m", header_length=length)


@given(st.data())
def test_a_damaged_request_is_refused_or_read(data: st.DataObject) -> None:
    header = orjson.dumps({"inputs": [RAW], "outputs": [{"name": "y", "parameters": {"binary_data": True}}]})
    body = bytearray(header + b"\1\2")
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        read = parse_request(bytes(body), "m", header_length=str(len(header)))
    except Refusal:
        return
    assert len(read.inputs) == 1


@pytest.mark.parametrize("identifier", ["", "é7"])
def test_an_answer_can_be_read_both_ways(identifier: str) -> None:
    array = (np.arange(6, dtype=np.float32) / 7).reshape(2, 3)
    for binary in (False, True):
        body, headers = build_response(InferenceResponse("m", "1", identifier, Tensor("y", array), binary))
        told = orjson.loads(body[: int(headers.get(HEADER_LENGTH, len(body)))])
        assert told.get("id", "") == identifier
        (output,) = told["outputs"]
        assert (output["name"], output["shape"], output["datatype"]) == ("y", [2, 3], "FP32")
        raw = body[-24:] if binary else np.array(output["data"], dtype=np.float32).tobytes()
        assert raw == array.tobytes()
