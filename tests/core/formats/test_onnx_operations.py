"""Each ONNX operation, alone in a graph, against onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper, save

from modelkeep.core.formats.onnx import _build, _load
from modelkeep.core.formats.onnx_operations import OPERATIONS

random = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return random.normal(size=shape).astype(np.float32)


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.int64)


@dataclass
class Case:
    """`op(x, *inputs, **attributes)` with x of `shape`; an input None is left out. `before` makes the first input."""

    op: str
    shape: tuple[int, ...]
    inputs: tuple[Any, ...] = ()
    opset: int = 21
    before: tuple[Any, ...] = ()
    outputs: int = 1
    attributes: dict[str, Any] = field(default_factory=dict)


def case(op: str, shape: tuple[int, ...], *inputs: Any, **more: Any) -> Case:
    own = {name: more.pop(name) for name in ("opset", "before", "outputs") if name in more}
    return Case(op, shape, inputs, attributes=more, **own)


IMAGE = (2, 4, 7, 6)
TO_INT = (helper.make_node("Cast", ["x"], ["first"], to=TensorProto.INT64),)
TO_BOOL = (
    helper.make_node("Constant", [], ["half"], value_float=0.5),
    helper.make_node("Greater", ["x", "half"], ["first"]),
)
POSITIVE = (helper.make_node("Abs", ["x"], ["first"]),)
SHAPE = (helper.make_node("Shape", ["x"], ["first"]),)

UNARY = "Abs Ceil Celu Cos Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity IsNaN LeakyRelu Mish Neg Reciprocal "
UNARY += "Relu Round Selu Sigmoid Sign Sin Softplus Softsign Tanh Softmax LogSoftmax Shape Size Dropout"
BINARY = "Add Sub Mul Div Max Min Equal Greater GreaterOrEqual Less LessOrEqual PRelu Sum"

CASES = [
    *(case(op, (3, 5)) for op in UNARY.split()),
    *(case(op, (3, 5), normal(5)) for op in BINARY.split()),
    *(case(op, (3, 5), normal(5), normal(3, 1)) for op in ("Max", "Min", "Sum")),
    *(case(op, (3, 5), before=POSITIVE) for op in ("Log", "Sqrt")),
    *(case(op, (3, 5), np.ones((3, 5), dtype=bool), before=TO_BOOL) for op in ("And", "Or")),
    case("Not", (3, 5), before=TO_BOOL),
    case("Where", (3, 5), normal(5), normal(3, 1), before=TO_BOOL),
    case("Pow", (3, 5), np.float32(3.0)),
    case("Pow", (3, 5), np.float32(1.5), before=POSITIVE),
    case("Div", (3, 5), ints(2), before=TO_INT),
    case("Mod", (3, 5), ints(3), before=TO_INT),
    case("Mod", (3, 5), np.float32(0.7), fmod=1),
    case("Elu", (3, 5), alpha=0.3),
    case("Celu", (3, 5), alpha=0.3),
    case("Selu", (3, 5), alpha=1.2, gamma=1.3),
    case("LeakyRelu", (3, 5), alpha=0.3),
    case("HardSigmoid", (3, 5), alpha=0.4, beta=0.1),
    case("Gelu", (3, 5), approximate="tanh"),
    case("Clip", (3, 5), np.float32(-0.3), np.float32(0.4)),
    case("Clip", (3, 5), None, np.float32(0.4)),
    case("Clip", (3, 5), opset=10, min=-0.3, max=0.4),
    case("Softmax", (3, 4, 5), axis=1),
    case("Softmax", (3, 4, 5), opset=12, axis=1),
    case("LogSoftmax", (3, 4, 5), opset=11),
    case("Einsum", (3, 4, 5), normal(3, 5, 2), equation="bij,bjk->bik"),
    case("MatMul", (3, 4, 5), normal(5, 2)),
    case("Gemm", (3, 5), normal(5, 2), normal(2)),
    case("Gemm", (3, 5), normal(2, 5), transB=1),
    case("Gemm", (5, 3), normal(2, 5), normal(3, 1), transA=1, transB=1, alpha=0.5, beta=2.0),
    case("Flatten", IMAGE),
    *(case("Flatten", IMAGE, axis=axis) for axis in (0, 2, -1)),
    case("Reshape", IMAGE, ints(0, -1, 3)),
    case("Reshape", IMAGE, ints(2, 4, -1)),
    case("Transpose", IMAGE),
    case("Transpose", IMAGE, perm=[0, 2, 3, 1]),
    case("Concat", (3, 5), normal(3, 2), normal(3, 1), axis=-1),
    case("Split", (3, 6), ints(1, 5), axis=1, outputs=2),
    case("Split", (3, 6), axis=1, outputs=3, opset=13),
    case("Split", (3, 7), axis=1, num_outputs=2, outputs=2),
    case("Split", (3, 6), axis=1, split=[2, 4], outputs=2, opset=11),
    case("Slice", IMAGE, ints(1, -3), ints(3, 1000), ints(1, -1)),
    case("Slice", IMAGE, ints(0, 1), ints(2, 9)),
    case("Slice", IMAGE, ints(0), ints(7), ints(2), ints(3)),
    case("Slice", IMAGE, ints(-1, 4), ints(-(2**63) + 1, 1), ints(2, 3), ints(-2, -1)),
    case("Slice", IMAGE, opset=9, starts=[1], ends=[3], axes=[2]),
    case("Gather", IMAGE, ints(2, 0, -1), axis=1),
    case("Gather", IMAGE, np.array([[0, 1], [-2, 3]]), axis=-1),
    case("Gather", IMAGE, np.array(1), axis=2),
    case("GatherElements", (3, 5), np.array([[0, -1], [2, 1], [4, 3]]), axis=1),
    case("Squeeze", (3, 1, 5, 1)),
    case("Squeeze", (3, 1, 5, 1), ints(1)),
    case("Squeeze", (3, 1, 5, 1), opset=11, axes=[-1, 1]),
    case("Unsqueeze", (3, 5), ints(0, -1)),
    case("Unsqueeze", (3, 5), opset=11, axes=[1, 3]),
    case("Expand", (3, 1, 5), ints(2, 1, 4, 1)),
    case("Expand", (2, 3, 1), ints(4)),
    case("Tile", (3, 5), ints(2, 3)),
    case("Shape", IMAGE, start=1, end=-1),
    case("ConstantOfShape", IMAGE, before=SHAPE),
    case("ConstantOfShape", IMAGE, before=SHAPE, value=helper.make_tensor("v", TensorProto.INT64, [1], [7])),
    case("Range", (), np.float32(9.0), np.float32(1.5)),
    case("Trilu", (4, 5)),
    case("Trilu", (4, 5), np.array(1), upper=0),
    case("Cast", (3, 5), to=TensorProto.INT32),
    case("Cast", (3, 5), to=TensorProto.DOUBLE),
    case("CastLike", (3, 5), ints(1)),
    case("Dropout", (3, 5), opset=10, ratio=0.5),
    case("Conv", IMAGE, normal(6, 4, 3, 3), normal(6)),
    case("Conv", IMAGE, normal(6, 2, 3, 2), group=2, strides=[2, 1], pads=[1, 0, 1, 0]),
    case("Conv", IMAGE, normal(6, 4, 3, 3), dilations=[2, 2], pads=[2, 2, 2, 2], kernel_shape=[3, 3]),
    case("Conv", IMAGE, normal(6, 4, 3, 3), pads=[0, 1, 2, 0]),
    case("Conv", (2, 4, 9), normal(6, 4, 3), strides=[2]),
    case("Conv", (2, 2, 5, 5, 5), normal(3, 2, 2, 2, 2)),
    *(
        case("Conv", IMAGE, normal(6, 4, 4, 3), auto_pad=how, strides=[2, 3])
        for how in ("SAME_UPPER", "SAME_LOWER", "VALID")
    ),
    case("ConvTranspose", IMAGE, normal(4, 3, 3, 3), normal(3), strides=[2, 2], pads=[1, 1, 1, 1]),
    case("ConvTranspose", IMAGE, normal(4, 3, 3, 3), strides=[2, 2], output_padding=[1, 1], group=2),
    case("MaxPool", IMAGE, kernel_shape=[2, 2], strides=[2, 2]),
    case("MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    case("MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    case("MaxPool", IMAGE, kernel_shape=[3, 2], pads=[0, 1, 2, 0], dilations=[2, 1]),
    case("MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
    case("MaxPool", (2, 4, 9), kernel_shape=[3]),
    case("AveragePool", IMAGE, kernel_shape=[2, 2], strides=[2, 2]),
    case("AveragePool", IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    case("AveragePool", IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
    case("AveragePool", IMAGE, kernel_shape=[3, 3], pads=[0, 1, 2, 0]),
    case("AveragePool", IMAGE, kernel_shape=[3, 3], pads=[0, 1, 2, 0], count_include_pad=1),
    case("AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_LOWER"),
    case("AveragePool", IMAGE, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    case("GlobalAveragePool", IMAGE),
    case("GlobalMaxPool", IMAGE),
    case("BatchNormalization", IMAGE, normal(4), normal(4), normal(4), normal(4) ** 2, epsilon=1e-3),
    case("InstanceNormalization", IMAGE, normal(4), normal(4)),
    case("LayerNormalization", (2, 4, 6), normal(6), normal(6)),
    case("LayerNormalization", (2, 4, 6), normal(4, 6), axis=1, epsilon=1e-3),
    case("GroupNormalization", IMAGE, normal(4), normal(4), num_groups=2),
    case("Pad", IMAGE, ints(0, 0, 1, 2, 0, 0, 3, 0)),
    case("Pad", IMAGE, ints(0, 1, 0, 0, 0, 0, 0, 2), np.float32(1.5)),
    case("Pad", IMAGE, ints(1, 2), None, ints(-1)),
    *(case("Pad", IMAGE, ints(0, 0, 1, 2, 0, 0, 3, 1), mode=mode) for mode in ("reflect", "edge", "wrap")),
    case("Pad", IMAGE, opset=10, pads=[0, 0, 1, 2, 0, 0, 3, 0], value=0.5),
    *(
        case(f"Reduce{how}", IMAGE, ints(1, -1))
        for how in ("Mean", "Sum", "Max", "Min", "L1", "L2", "SumSquare", "LogSumExp")
    ),
    case("ReduceMean", IMAGE, opset=17, axes=[2, 3], keepdims=0),
    case("ReduceMax", IMAGE, keepdims=0),
    case("ReduceSum", IMAGE, noop_with_empty_axes=1),
    case("ArgMax", (3, 5), axis=1, keepdims=0),
    case("ArgMax", (3, 5), axis=-1),
]


@pytest.mark.parametrize("given", CASES, ids=lambda given: f"{given.op}-{given.opset}")
def test_operation_against_onnxruntime(given: Case, tmp_path: Path) -> None:
    names = [f"i{i}" if value is not None else "" for i, value in enumerate(given.inputs)]
    weights = [
        numpy_helper.from_array(np.asarray(value), name)
        for name, value in zip(names, given.inputs, strict=True)
        if name
    ]
    outputs = [f"y{i}" for i in range(given.outputs)]
    node = helper.make_node(given.op, ["first" if given.before else "x", *names], outputs, **given.attributes)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, given.shape)
    value = np.asarray(np.random.default_rng(1).normal(size=given.shape) * 2, dtype=np.float32)

    def model(types: list[Any]) -> Any:
        graph = helper.make_graph([*given.before, node], "g", [x], types, weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", given.opset)], ir_version=8)

    untyped = model([helper.make_empty_tensor_value_info(name) for name in outputs])
    session = onnxruntime.InferenceSession(untyped.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, {"x": value})
    path = tmp_path / "m.onnx"
    kinds = [(helper.np_dtype_to_tensor_dtype(truth.dtype), truth.shape) for truth in expected]
    save(model([helper.make_tensor_value_info(name, *kind) for name, kind in zip(outputs, kinds, strict=True)]), path)
    graph = _load(path).graph
    for name, truth in zip(outputs, expected, strict=True):
        module = _build(graph, graph.node, "x", name, given.opset, path)
        got = module(torch.from_numpy(value)).detach().numpy()
        assert got.dtype == truth.dtype
        assert got.shape == truth.shape
        np.testing.assert_allclose(got, truth, rtol=1e-4, atol=1e-5)


def test_every_operation_of_the_table_is_tried() -> None:
    tried = {given.op for given in CASES} | {"Softmax before 13", "LogSoftmax before 13"}
    assert set(OPERATIONS) - tried == set()
