"""Tensors: what is sent is what arrives, each query has one name, and nothing that is wrong gets through."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from modelkeep.guard.protocol import inference_pb2 as pb
from modelkeep.guard.protocol.grpc_messages import CONTENTS
from modelkeep.guard.protocol.grpc_messages import parse_request as parse_message
from modelkeep.guard.protocol.rest import parse_request
from modelkeep.guard.protocol.tensors import (
    DTYPES,
    Array,
    TensorSpec,
    canonical,
    datatype_of,
    from_bytes,
    from_numbers,
    query_hashes,
)
from modelkeep.guard.refusals import Malformed, Refusal, TooLarge


def arrays(datatype: str) -> st.SearchStrategy[Array]:
    dtype = DTYPES[datatype]
    finite = hnp.from_dtype(dtype, allow_nan=False, allow_infinity=False)
    return hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=4, max_side=4), elements=finite)


def same(ours: Array, theirs: Array) -> bool:
    return ours.dtype == theirs.dtype and ours.shape == theirs.shape and ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("datatype", DTYPES)
def test_a_tensor_arrives_as_it_was_sent(datatype: str) -> None:
    @given(arrays(datatype))
    def check(array: Array) -> None:
        told: dict[str, Any] = {"name": "x", "shape": list(array.shape), "datatype": datatype}
        flat = orjson.dumps({"inputs": [told | {"data": array.ravel().tolist()}]})
        nested = orjson.dumps({"inputs": [told | {"data": array.tolist()}]})
        raw = array.tobytes()
        header = orjson.dumps({"inputs": [told | {"parameters": {"binary_data_size": len(raw)}}]})
        message = pb.ModelInferRequest(raw_input_contents=[raw])
        message.inputs.add(name="x", datatype=datatype, shape=array.shape)
        arrived = [
            parse_request(flat, "m"),
            parse_request(nested, "m"),
            parse_request(header + raw, "m", header_length=str(len(header))),
            parse_message(message),
        ]
        if datatype in CONTENTS:
            typed = pb.ModelInferRequest()
            contents = typed.inputs.add(name="x", datatype=datatype, shape=array.shape).contents
            getattr(contents, CONTENTS[datatype]).extend(array.ravel().tolist())
            arrived.append(parse_message(typed))
        for request in arrived:
            assert same(request.inputs[0].array, array)
            assert datatype_of(request.inputs[0].array) == datatype

    check()


@given(hnp.arrays(np.float32, (3, 2), elements=st.floats(-9, 9, width=32)))
def test_a_query_has_one_name_in_every_type_and_batch(rows: Array) -> None:
    spec = TensorSpec("x", "FP32", (2,))
    names = query_hashes(canonical(rows, spec))
    assert query_hashes(canonical(rows.astype(np.float64), spec)) == names
    assert query_hashes(canonical(np.where(rows == 0, np.float32(-0.0), rows), spec)) == names
    assert [query_hashes(canonical(row[None], spec))[0] for row in rows] == names
    assert all(len(name) == 32 for name in names)
    for i in range(3):
        for j in range(3):
            assert (names[i] == names[j]) == bool((rows[i] == rows[j]).all())


def test_types_and_shapes_are_part_of_the_name() -> None:
    zeros: list[Array] = [np.zeros((1, 4), np.float32), np.zeros((1, 2, 2), np.float32), np.zeros((1, 2), np.float64)]
    assert len({query_hashes(rows)[0] for rows in zeros}) == 3


def test_the_rows_that_the_model_sees_have_one_zero() -> None:
    rows = canonical(np.array([[-0.0, 0.0]], np.float32), TensorSpec("x", "FP32", (2,)))
    assert not np.signbit(rows).any()


@pytest.mark.parametrize(
    ("data", "datatype", "shape", "says"),
    [
        (["a"], "BYTES", [1], "takes numbers"),
        ([1], "BF16", [1], "must be one of"),
        ([1], ["FP32"], [1], "must be one of"),
        ([1], None, [1], "must be one of"),
        ([1], "FP32", [], "1 to 16"),
        ([1], "FP32", None, "1 to 16"),
        ([1], "FP32", "1", "1 to 16"),
        ([1], "FP32", [0], "1 or more"),
        ([1], "FP32", [-1], "1 or more"),
        ([1], "FP32", [True], "1 or more"),
        ([1], "FP32", [1.0], "1 or more"),
        ([1, 2], "FP32", [1], "has 2 numbers"),
        ([[1], [2, 3]], "FP32", [2, 1], "do not have its shape"),
        ([[1, 2]], "FP32", [2, 1], "do not have its shape"),
        ([[1], 2], "FP32", [2, 1], "Got list"),
        ([[[1]]], "FP32", [1, 1], "Got list"),
        ("1", "FP32", [1], "list of numbers"),
        (None, "FP32", [1], "list of numbers"),
        (["1"], "FP32", [1], "Got str"),
        ([None], "FP32", [1], "Got NoneType"),
        ([True], "FP32", [1], "Got bool"),
        ([1], "BOOL", [1], "Got int"),
        ([1.5], "INT32", [1], "Got float"),
        ([256], "UINT8", [1], "cannot hold"),
        ([-1], "UINT64", [1], "cannot hold"),
        ([2**63], "INT64", [1], "cannot hold"),
        ([1e39], "FP32", [1], "cannot hold"),
        ([65520], "FP16", [1], "cannot hold"),
        ([float("nan")], "FP32", [1], "cannot hold"),
        ([10**400], "FP64", [1], "cannot hold"),
    ],
)
def test_numbers_that_are_no_tensor_are_refused(data: object, datatype: object, shape: object, says: str) -> None:
    with pytest.raises(Malformed, match=says):
        from_numbers(data, datatype, shape, "x")


def test_a_shape_is_checked_before_memory_is_taken() -> None:
    with pytest.raises(TooLarge, match="at most"):
        from_numbers([1], "FP32", [2**62, 2**62], "x")
    with pytest.raises(TooLarge, match="at most 3"):
        from_bytes(b"1234", "UINT8", [4], "x", most=3)


@pytest.mark.parametrize("length", [0, 3, 5])
def test_bytes_of_another_length_are_refused(length: int) -> None:
    with pytest.raises(Malformed, match=f"has {length} bytes"):
        from_bytes(bytes(length), "FP32", [1], "x")


def test_a_byte_that_is_no_truth_is_refused() -> None:
    with pytest.raises(Malformed, match="0 or 1"):
        from_bytes(b"\x00\x02", "BOOL", [2], "x")


@pytest.mark.parametrize(
    "rows",
    [
        np.array([[np.nan, 0]], np.float32),
        np.array([[np.inf, 0]], np.float16),
        np.array([[1e39, 0]]),
        np.zeros((1, 3)),
        np.zeros((0, 2)),
        np.zeros(2),
        np.zeros((1, 2, 1)),
    ],
    ids=["nan", "inf", "overflow", "wide", "empty", "flat", "deep"],
)
def test_rows_that_the_model_cannot_take_are_refused(rows: Array) -> None:
    with pytest.raises(Malformed, match="Input 'x' must"):
        canonical(rows, TensorSpec("x", "FP32", (2,)))


def test_a_model_of_whole_numbers_takes_only_its_own_type() -> None:
    spec = TensorSpec("x", "INT64", (1,))
    assert canonical(np.array([[3]]), spec).dtype == np.int64
    with pytest.raises(Malformed, match="INT64"):
        canonical(np.array([[3.0]]), spec)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists), st.text())
def test_anything_is_a_tensor_or_refused(thing: object, text: str) -> None:
    for datatype, shape in (("FP32", thing), (thing, [1]), (text, thing), ("INT8", [1])):
        try:
            array = from_numbers(thing, datatype, shape, text)
        except Refusal:
            continue
        assert np.isfinite(array).all()
