"""Reading a torch.export archive (`.pt2`) without running anything that its author put in.

We read the archive's JSON graph and raw weights ourselves, because `torch.export.load` (read in torch 2.13) trusts the
file: it unpickles weights and constants marked `use_pickle`, custom and opaque objects, legacy `.pt` entries and (when
`weights_only` fails) the sample inputs; it passes shape expressions to sympy's `sympify`, which is `eval`; it imports
modules that a tree specification names; it puts node names into generated code; and it loads compiled libraries.
What we build has only ATen operators, our own names and plain numbers in it.
"""

from __future__ import annotations

import json
import operator
import re
import zipfile
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn

from modelkeep.core.errors import ModelError
from modelkeep.core.formats.archives import require_stored
from modelkeep.core.formats.probe import count_logits

REMEDY = (
    "torch.export.save(torch.export.export(module.eval(), (x,), "
    'dynamic_shapes=({0: torch.export.Dim("batch")},)), "model.pt2").'
)
_SCHEMA_MAJOR = 8

# The numbers of torch._export.serde.schema's enumerations.
_SCALAR_TYPES = {
    1: torch.uint8,
    2: torch.int8,
    3: torch.int16,
    4: torch.int32,
    5: torch.int64,
    6: torch.float16,
    7: torch.float32,
    8: torch.float64,
    12: torch.bool,
    13: torch.bfloat16,
}
_MEMORY_FORMATS = {
    1: torch.contiguous_format,
    2: torch.channels_last,
    3: torch.channels_last_3d,
    4: torch.preserve_format,
}
# Some ATen operators take a file's name; no operator of a classifier needs any string but these.
_STRINGS = {"none", "tanh", "same", "valid", "floor", "trunc", "mean", "sum", "ij", "xy", "constant", "reflect"}
_MOST_REPEATED = 2**24  # numbers of a constant that repeats itself
_STRINGS |= {"replicate", "circular", "amax", "amin", "prod"}
# Arithmetic on sizes.
_ON_SIZES: dict[str, Callable[..., Any]] = {
    f"_operator.{name}": getattr(operator, name)
    for name in ("add", "sub", "mul", "floordiv", "mod", "neg", "pow", "truediv", "eq", "ne", "ge", "gt", "le", "lt")
}


def read_pt2(path: Path, input_shape: Sequence[int] | None) -> tuple[nn.Module, dict[str, Any]]:
    """The exported network as a graph with real parameters, its input shape and its number of classes."""
    try:
        with zipfile.ZipFile(path) as archive:
            require_stored(archive, path)
            program, stored = _program(archive, path)
            module, dtype, sizes = _build(program["graph_module"], stored, path)
        shape = tuple(input_shape) if input_shape is not None else tuple(size["as_int"] for size in sizes[1:])
    except zipfile.BadZipFile as error:
        raise ModelError(f"'{path}' cannot be read as a torch.export archive: {error}. Is it complete?") from error
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError, SyntaxError) as error:
        raise ModelError(f"'{path}' is damaged, or an input size other than the batch is open: {error!r}.") from error
    return module, {"input_shape": shape, "classes": count_logits(module, shape, dtype, path, REMEDY)}


def _program(archive: zipfile.ZipFile, path: Path) -> tuple[Any, dict[str, torch.Tensor]]:
    """The JSON program, and its weights and constants by name."""
    root = archive.namelist()[0].split("/")[0]
    names = {name.removeprefix(f"{root}/") for name in archive.namelist()}
    programs = [name for name in names if re.fullmatch(r"models/[^/]+\.json", name)]
    if len(programs) != 1:
        raise ModelError(
            f"'{path}' should hold one exported program in the format of torch 2.8 or newer. Found {len(programs)}. "
            f"Export the model again: {REMEDY}"
        )
    program = json.loads(archive.read(f"{root}/{programs[0]}"))
    if program["schema_version"]["major"] != _SCHEMA_MAJOR or archive.read(f"{root}/byteorder") != b"little":
        raise ModelError(
            f"'{path}' was written by torch {program.get('torch_version')} with schema {program['schema_version']}; "
            f"ModelKeep reads little-endian archives of schema {_SCHEMA_MAJOR}. Export it again with this torch."
        )
    name = programs[0].removeprefix("models/").removesuffix(".json")
    stored: dict[str, torch.Tensor] = {}
    for kind in ("weights", "constants"):
        folder = f"{root}/data/{kind}"
        stored |= _tensors(archive, folder, json.loads(archive.read(f"{folder}/{name}_{kind}_config.json")), path)
    return program, stored


def _tensors(archive: zipfile.ZipFile, folder: str, config: Any, path: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    shared: dict[str, torch.Tensor] = {}
    for name, payload in config["config"].items():
        if payload["use_pickle"] or payload["tensor_meta"] is None:
            raise ModelError(
                f"'{path}' holds a pickled object, '{name}': to read it can run any code, so ModelKeep never does. "
                "Export a model whose weights and constants are plain tensors."
            )
        meta = payload["tensor_meta"]
        sizes, strides = ([size["as_int"] for size in meta[key]] for key in ("sizes", "strides"))
        # One weight under two names stays one parameter.
        key = json.dumps([payload["path_name"], sizes, strides, meta["storage_offset"]])
        if key not in shared:
            raw = bytearray(archive.read(f"{folder}/{payload['path_name']}"))
            dtype = _SCALAR_TYPES[meta["dtype"]]
            flat = torch.frombuffer(raw, dtype=dtype) if raw else torch.empty(0, dtype=dtype)
            if prod(sizes) > max(len(flat), _MOST_REPEATED):  # by strides of 0, a few bytes can be any size
                raise ModelError(f"'{name}' in '{path}' is of shape {sizes}, but has {len(flat):,} numbers.")
            tensor = flat.as_strided(sizes, strides, meta["storage_offset"]["as_int"]).clone()
            shared[key] = nn.Parameter(tensor, meta["requires_grad"]) if payload["is_param"] else tensor
        found[name] = shared[key]
    return found


def _build(program: Any, stored: dict[str, torch.Tensor], path: Path) -> tuple[nn.Module, torch.dtype, Any]:
    """The graph module, and the type and sizes of its input."""
    serialized, signature = program["graph"], program["signature"]
    graph, root = fx.Graph(), nn.Module()
    values: dict[str, Any] = {}
    inputs = []
    for spec in signature["input_specs"]:
        ((kind, content),) = spec.items()
        if kind == "user_input" and "as_tensor" in content["arg"]:
            name = content["arg"]["as_tensor"]["name"]
            values[name] = graph.placeholder("x")
            inputs.append(serialized["tensor_values"][name])
        elif kind in ("parameter", "buffer", "tensor_constant"):
            target = content[f"{kind}_name"]
            _register(root, target, stored[target])
            values[content["arg"]["name"]] = graph.get_attr(target)
        else:
            raise ModelError(f"'{path}' has an input of kind '{kind}'. ModelKeep reads networks of one input tensor.")
    outputs = [spec["user_output"]["arg"] for spec in signature["output_specs"] if "user_output" in spec]
    if len(inputs) != 1 or len(outputs) != 1 or len(signature["output_specs"]) != 1:
        raise ModelError(
            f"'{path}' should have one input, one output and no side effect. Got {len(inputs)} inputs and "
            f"{len(signature['output_specs'])} outputs. Was it exported in train mode? {REMEDY}"
        )
    refused = sorted({node["target"] for node in serialized["nodes"] if _operator(node["target"]) is None})
    if refused:
        raise ModelError(f"'{path}' uses operators that ModelKeep does not read: {', '.join(refused)}.")
    for node in serialized["nodes"]:
        if node["outputs"]:  # without outputs it is an assertion about sizes
            _add(graph, node, values)
    graph.output(_before_softmax(_value(outputs[0], values)))
    for node in [node for node in graph.nodes if node.op == "get_attr" and not node.users]:
        graph.erase_node(node)
    return fx.GraphModule(root, graph), _SCALAR_TYPES[inputs[0]["dtype"]], inputs[0]["sizes"]


def _register(root: nn.Module, target: str, tensor: torch.Tensor) -> None:
    *parents, leaf = target.split(".")
    for name in parents:
        if name not in root._modules:
            root.add_module(name, nn.Module())
        root = root.get_submodule(name)
    if isinstance(tensor, nn.Parameter):
        root.register_parameter(leaf, tensor)
    else:
        root.register_buffer(leaf, tensor)


def _operator(target: str) -> Callable[..., Any] | None:
    match = re.fullmatch(r"torch\.ops\.aten\.(\w+)\.(\w+)", target)
    if match is None:
        return _ON_SIZES.get(target)
    found = getattr(getattr(torch.ops.aten, match[1], None), match[2], None)
    return found if isinstance(found, torch._ops.OpOverload) else None


def _add(graph: fx.Graph, node: Any, values: dict[str, Any]) -> None:
    positional = [_value(given["arg"], values) for given in node["inputs"] if given["kind"] != 2]
    named = {given["name"]: _value(given["arg"], values) for given in node["inputs"] if given["kind"] == 2}
    if not all(name.isidentifier() for name in named):
        raise ValueError(f"argument names {list(named)}")
    function = _operator(node["target"])
    assert function is not None
    result = graph.call_function(function, tuple(positional), named)
    names = [_name(output) for output in node["outputs"]]
    if len(names) == 1 and isinstance(names[0], str):
        values[names[0]] = result
        return
    # Several outputs, or one list of them.
    for i, name in enumerate(names[0] if isinstance(names[0], list) else names):
        if name is not None:
            values[name] = graph.call_function(operator.getitem, (result, i))


def _name(output: Any) -> Any:
    ((kind, content),) = output.items()
    match kind:
        case "as_tensor":
            return content["name"]
        case "as_tensors":
            return [tensor["name"] for tensor in content]
        case "as_sym_int" | "as_sym_bool" | "as_sym_float":
            return content["as_name"]
        case "as_none":
            return None
    raise ValueError(f"an output of kind '{kind}'")


def _value(argument: Any, values: dict[str, Any]) -> Any:
    ((kind, content),) = argument.items()
    match kind:
        case "as_none":
            return None
        case "as_name":
            return values[content]
        case "as_tensor":
            return values[content["name"]]
        case "as_tensors":
            return [values[tensor["name"]] for tensor in content]
        case "as_int" | "as_bool" | "as_ints" | "as_bools" | "as_int_lists":
            return _numbers(content)
        case "as_float":
            return float(content)
        case "as_floats":
            return [float(number) for number in content]
        case "as_sym_int" | "as_sym_bool" | "as_sym_float" | "as_optional_tensor":
            return _value(content, values)
        case "as_sym_ints" | "as_sym_bools" | "as_sym_floats" | "as_optional_tensors":
            return [_value(item, values) for item in content]
        case "as_scalar_type":
            return _SCALAR_TYPES[content]
        case "as_memory_format":
            return _MEMORY_FORMATS[content]
        case "as_layout" if content == 7:
            return torch.strided
        case "as_device":
            return torch.device("cpu")
        case "as_string" if content in _STRINGS:
            return content
    raise ValueError(f"an argument of kind '{kind}': {content!r}")


def _numbers(content: Any) -> Any:
    if isinstance(content, list):
        return [_numbers(item) for item in content]
    if not isinstance(content, int):
        raise ValueError(f"{content!r} where a whole number should stand")
    return content


def _before_softmax(output: fx.Node) -> fx.Node:
    """Logits, where the network ends in a softmax over the classes."""
    softmaxes = (torch.ops.aten.softmax.int, torch.ops.aten._softmax.default)
    if output.target in softmaxes and output.args[1] in (1, -1):
        assert isinstance(output.args[0], fx.Node)
        return output.args[0]
    return output
