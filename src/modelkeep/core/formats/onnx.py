"""Reading an ONNX graph as a torch.fx graph of small modules with real, trainable weights.

Our own reader and not onnx2torch, because that pulls in a torchvision that does not run beside a CPU build of torch.
"""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import fx, nn

from modelkeep.core.errors import MissingExtra, ModelError, Remedy
from modelkeep.core.formats import onnx_layers  # noqa: F401 - enters its operations in the table
from modelkeep.core.formats.onnx_operations import OPERATIONS
from modelkeep.core.formats.probe import count_logits

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

REMEDY = (
    'torch.onnx.export(module.eval(), (x,), "model.onnx", dynamo=True, '
    'dynamic_shapes=({0: torch.export.Dim("batch")},)).'
)
_SEVERAL_OUTPUTS = ("Split",)


class UnknownOperation(ModelError):
    """The graph has an operation that is not in our table; onnxruntime may know it."""


def read_onnx(path: Path, input_shape: Sequence[int] | None) -> tuple[nn.Module, dict[str, Any]]:
    """The network as a module, its input shape and its number of classes.

    A softmax over the classes at the end is left out, so that the module gives logits.
    """
    model = _load(path)
    graph = model.graph
    x, dtype, sizes = _input(graph, path)
    if input_shape is None and not all(sizes):
        raise ModelError(
            f"'{path}' leaves the shape of its input open: {sizes}.",
            remedy=Remedy("Say input_shape=….", "Say --input-shape, such as 3,32,32."),
        )
    shape = tuple(input_shape if input_shape is not None else sizes)
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    output, nodes = _needed(graph, path)
    _refuse_unknown(nodes, opset, path)
    module = _build(graph, nodes, x, output, opset, path)
    return module, {"input_shape": shape, "classes": count_logits(module, shape, dtype, path, REMEDY)}


def _load(path: Path) -> ModelProto:
    try:
        import onnx
        import onnx.inliner
    except ImportError as error:
        raise MissingExtra("formats", "onnx", "Reading an ONNX file") from error
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model)
    except Exception as error:  # protobuf's, the checker's and the file system's errors have no common root
        raise ModelError(
            f"'{path}' cannot be read as ONNX: {error}. Is it complete, with its external data?"
        ) from error
    return onnx.inliner.inline_local_functions(model) if model.functions else model


def _input(graph: GraphProto, path: Path) -> tuple[str, torch.dtype, tuple[int, ...]]:
    """The name, type and shape (0: open) of the one input."""
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    if len(inputs) != 1:
        raise ModelError(f"ModelKeep reads networks of one input. '{path}' has {[value.name for value in inputs]}.")
    tensor = inputs[0].type.tensor_type
    dtype = _dtype(tensor.elem_type)
    if not dtype.is_floating_point:
        raise ModelError(f"The input of '{path}' must be of a floating type. Got {dtype}.")
    return inputs[0].name, dtype, tuple(dimension.dim_value for dimension in tensor.shape.dim[1:])


def _dtype(number: int) -> torch.dtype:
    from onnx import helper

    found: torch.dtype = torch.from_numpy(helper.tensor_dtype_to_np_dtype(number).type([0])).dtype
    return found


def _tensor(stored: TensorProto) -> torch.Tensor:
    from onnx import numpy_helper

    try:
        return torch.from_numpy(numpy_helper.to_array(stored).copy())
    except TypeError as error:
        raise ModelError(f"The tensor '{stored.name}' has a type that ModelKeep does not read: {error}.") from error


def _needed(graph: GraphProto, path: Path) -> tuple[str, list[NodeProto]]:
    """The name of the logits, and the nodes that they depend on, in order."""
    from onnx import TensorProto

    floating = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
    outputs = [value.name for value in graph.output if value.type.tensor_type.elem_type in floating]
    if len(outputs) != 1:
        raise ModelError(f"ModelKeep reads networks with one output of scores. '{path}' has {outputs}.")
    makers = {name: node for node in graph.node for name in node.output}
    output = outputs[0]
    if output in makers and makers[output].op_type == "Softmax":
        output = makers[output].input[0]
    wanted, needed = {output}, []
    for node in reversed(graph.node):
        if wanted.intersection(node.output):
            wanted.update(node.input)
            needed.append(node)
    return output, needed[::-1]


def _refuse_unknown(nodes: Sequence[NodeProto], opset: int, path: Path) -> None:
    unknown = {node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}" for node in nodes}
    unknown -= {"Constant", *OPERATIONS}
    if unknown:
        raise UnknownOperation(
            f"'{path}' uses operations that ModelKeep does not read: {', '.join(sorted(unknown))}. "
            "Give the network itself instead:",
            remedy=Remedy(
                'Model.load("package.module:factory", weights="model.safetensors").',
                "package.module:factory --weights model.safetensors.",
            ),
        )


def _build(
    graph: GraphProto, nodes: Sequence[NodeProto], x: str, output: str, opset: int, path: Path
) -> fx.GraphModule:
    made, root = fx.Graph(), nn.Module()
    # A value is a node of the new graph or, as far as it is known already, a tensor.
    values: dict[str, Any] = {"": None, x: made.placeholder("x")}
    values |= {initializer.name: _weight(_tensor(initializer)) for initializer in graph.initializer}
    for node in nodes:
        attributes = _attributes(node)
        if node.op_type == "Constant":
            values[node.output[0]] = next(torch.as_tensor(value) for value in attributes.values())
            continue
        inputs = [values[name] for name in node.input]
        step = OnnxNode(_kind(node, opset), attributes, inputs, path)
        given = [value for value in inputs if isinstance(value, fx.Node)]
        if given:
            name = _unused(node.name or node.output[0], root)
            root.add_module(name, step)
            result: Any = made.call_module(name, tuple(given))
        else:
            with torch.no_grad():
                result = step()
            if any(isinstance(value, nn.Parameter) for value in inputs) and isinstance(result, torch.Tensor):
                result = _weight(result)  # a weight that was only transposed, say, is still one
        if node.op_type in _SEVERAL_OUTPUTS:
            for i, name in enumerate(node.output):
                values[name] = made.call_function(operator.getitem, (result, i)) if given else result[i]
        else:
            values[node.output[0]] = result
    made.output(values[output])
    return fx.GraphModule(root, made)


def _kind(node: NodeProto, opset: int) -> str:
    old = f"{node.op_type} before 13"
    return old if opset < 13 and old in OPERATIONS else node.op_type


def _weight(tensor: torch.Tensor) -> torch.Tensor:
    """Numbers that training may change, against constants of the graph: scalars, indices, infinite masks."""
    if isinstance(tensor, nn.Parameter):
        return tensor
    trainable = tensor.is_floating_point() and tensor.ndim > 0 and bool(torch.isfinite(tensor).all())
    return nn.Parameter(tensor) if trainable else tensor


def _attributes(node: NodeProto) -> dict[str, Any]:
    from onnx import TensorProto, helper

    found: dict[str, Any] = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            value = value.decode()
        elif isinstance(value, TensorProto):
            value = _tensor(value)
        elif attribute.name == "to":
            value = _dtype(value)
        found[attribute.name] = value
    if node.op_type == "Split" and len(node.input) < 2 and "split" not in found:
        found["num_outputs"] = len(node.output)
    return found


def _unused(name: str, root: nn.Module) -> str:
    """An attribute name like ONNX's name for a node: `/layer1/conv/Conv` becomes `layer1_conv_Conv`."""
    plain = re.sub(r"\W+", "_", name).strip("_")
    plain = plain if plain and not plain[0].isdigit() else f"node_{plain}"
    tried, count = plain, 0
    while hasattr(root, tried):
        count += 1
        tried = f"{plain}_{count}"
    return tried


class OnnxNode(nn.Module):
    """One operation of the graph, with the inputs that are known beforehand as its own parameters and buffers."""

    def __init__(self, kind: str, attributes: dict[str, Any], inputs: Sequence[Any], path: Path) -> None:
        super().__init__()
        self.kind, self.attributes = kind, attributes
        operation = OPERATIONS[kind]
        try:
            names = inspect.signature(operation.run).bind(*inputs, **attributes).signature.parameters
        except TypeError as error:
            raise ModelError(f"'{path}' uses {kind} in a way that ModelKeep does not read: {error}.") from error
        positional = [p.name for p in names.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
        # For each input: what it is (a list or None), the name of an own tensor, or "" for one that is handed in.
        self.inputs: list[Any] = []
        for i, value in enumerate(inputs):
            name = positional[i] if i < len(positional) else f"input{i}"
            if isinstance(value, fx.Node):
                self.inputs.append("")
            elif value is None or i in operation.lists:
                self.inputs.append(None if value is None else value.tolist())
            else:
                self.inputs.append(name)
                if isinstance(value, nn.Parameter) and not name.startswith("running_"):
                    self.register_parameter(name, value)
                else:
                    self.register_buffer(name, value.detach())

    def forward(self, *given: torch.Tensor) -> Any:
        handed = iter(given)
        own = [next(handed) if e == "" else getattr(self, e) if isinstance(e, str) else e for e in self.inputs]
        return run_operation(self.kind, own, self.attributes)

    def extra_repr(self) -> str:
        return ", ".join([self.kind, *(f"{name}={value}" for name, value in self.attributes.items())])


def run_operation(kind: str, inputs: Sequence[Any], attributes: dict[str, Any]) -> Any:
    """Run an operation of the table; a list that was not known beforehand arrives as a tensor."""
    operation = OPERATIONS[kind]
    read = [
        value.tolist() if i in operation.lists and isinstance(value, torch.Tensor) else value
        for i, value in enumerate(inputs)
    ]
    return operation.run(*read, **attributes)


# torch.fx takes it as one step when it traces the module again: inside, code depends on shapes.
fx.wrap("run_operation")
