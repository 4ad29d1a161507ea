"""gRPC messages: the committed ones are those of our .proto file, and nothing beyond them is let through."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import descriptor_pool
from hypothesis import given
from hypothesis import strategies as st

from modelkeep.guard.protocol import inference_pb2 as pb
from modelkeep.guard.protocol.grpc_messages import build_response, parse_request
from modelkeep.guard.protocol.messages import InferenceResponse, Tensor
from modelkeep.guard.refusals import Malformed, Refusal
from processes import PATIENCE


def descriptor(file: Path) -> bytes:
    (line,) = (line for line in file.read_text().splitlines() if "AddSerializedFile(" in line)
    serialized = ast.literal_eval(line.partition("AddSerializedFile(")[2].removesuffix(")"))
    assert isinstance(serialized, bytes)
    return serialized


def test_the_messages_are_made_from_our_proto_file(tmp_path: Path) -> None:
    home = Path(pb.__file__).parent
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(home), f"--python_out={tmp_path}"]
    subprocess.run([*command, "inference.proto"], check=True, timeout=PATIENCE)
    assert descriptor(tmp_path / "inference_pb2.py") == descriptor(home / "inference_pb2.py")


def test_our_messages_leave_the_common_pool_to_the_clients() -> None:
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("inference.ModelInferRequest")


def message() -> pb.ModelInferRequest:
    told = pb.ModelInferRequest(model_name="m")
    told.inputs.add(name="x", datatype="FP32", shape=[1, 2]).contents.fp32_contents.extend([1, 2])
    return told


def test_a_request_is_read_whole() -> None:
    told = message()
    told.model_version, told.id = "3", "7"
    told.outputs.add(name="y")
    read = parse_request(told)
    assert (read.model, read.version, read.id, read.outputs, read.binary) == ("m", "3", "7", ("y",), False)


def test_what_is_wrong_is_refused_with_a_sentence() -> None:
    wrong: list[tuple[pb.ModelInferRequest, str]] = []

    def wrongly(says: str) -> pb.ModelInferRequest:
        wrong.append((message(), says))
        return wrong[-1][0]

    wrongly("sequence_id").parameters["sequence_id"].int64_param = 1
    wrongly("classification").outputs.add(name="y").parameters["classification"].int64_param = 1
    wrongly("shared_memory").inputs[0].parameters["shared_memory_region"].string_param = "r"
    wrongly("has 2 numbers").inputs[0].shape[1] = 3
    wrongly("1 or more").inputs[0].shape[1] = -1
    wrongly("int_contents").inputs[0].contents.int_contents.append(1)
    wrongly("takes numbers").inputs[0].datatype = "BYTES"
    wrongly("no typed contents").inputs[0].datatype = "FP16"
    wrongly("fp64_contents").inputs[0].datatype = "FP64"
    wrongly("cannot hold").inputs[0].contents.fp32_contents[0] = float("nan")
    wrongly("both").raw_input_contents.append(b"12345678")
    wrongly("Send one for each").raw_input_contents.extend([b"1", b"2"])
    wrongly("a name of its own").inputs.add().CopyFrom(message().inputs[0])
    wrongly("a name of its own").inputs[0].name = ""
    wrongly("256").inputs[0].name = "x" * 257
    wrongly("256").id = "x" * 257
    wrongly("no inputs").ClearField("inputs")
    for told, says in wrong:
        with pytest.raises(Malformed, match=says):
            parse_request(told)


@given(st.binary(max_size=80))
def test_whatever_bytes_make_a_message_are_read_or_refused(raw: bytes) -> None:
    told = message()
    try:
        told.MergeFromString(raw)
    except Exception as error:
        assert type(error).__name__ == "DecodeError"  # noqa: PT017 - anything else would crash the server
        return
    try:
        parse_request(told)
    except Refusal:
        return


def test_an_answer_is_raw_or_typed_as_it_was_asked() -> None:
    array = (np.arange(6, dtype=np.float32) / 7).reshape(2, 3)
    raw = build_response(InferenceResponse("m", "1", "7", Tensor("y", array), binary=True))
    typed = build_response(InferenceResponse("m", "1", "7", Tensor("y", array), binary=False))
    assert list(raw.raw_output_contents) == [array.tobytes()]
    assert not raw.outputs[0].HasField("contents")
    assert np.array(typed.outputs[0].contents.fp32_contents, np.float32).tobytes() == array.tobytes()
    assert not typed.raw_output_contents
