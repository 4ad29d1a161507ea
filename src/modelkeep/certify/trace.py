"""From the owner's module to the operations that it is made of; what has no rule is refused by name."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import fx, nn

from modelkeep.certify.call_facts import CallFacts
from modelkeep.certify.comparison import compare
from modelkeep.certify.operations import Operation
from modelkeep.certify.rules import RULES, Call, NoRule, Value, Written
from modelkeep.core.errors import ModelError
from modelkeep.core.model import Model
from modelkeep.core.slices.graphs import Untraceable, trace_graph
from modelkeep.zoo.architectures.minmax import MinMax

_REPLACE = "Replace it by an operation that has a rule; the documentation lists them."
_OF_CODE = (
    "The network was read from a file of operations (.pt2, .onnx), which are not those of its code. Build it from its "
    'code, with the same weights: Model.load("package.module:factory", weights=...).'
)


def trace_operations(model: Model) -> tuple[Operation, ...]:
    """The network of `model` from the owner's input to the logits, preprocessing included, as a list of operations.

    What flows from the size of the batch or the type of the input into a value is refused, and the list is compared
    with the network itself in float64 (`comparison`), so that nothing goes unnoticed that a trace does not show.

    >>> model = Model(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), input_shape=(2, 2), classes=2)
    >>> [operation.kind for operation in trace_operations(model)]
    ['input', 'reshape', 'dense']
    """
    model.require_eval()
    require_plain(model.module)
    try:
        graph = trace_graph(model.module, leaves=(MinMax,))
    except Untraceable as error:
        raise ModelError(
            f"The network cannot be written down as operations: torch.fx cannot follow it ({error}). "
            "A network that decides by its input what to compute has no rule."
        ) from error
    writer = _Writer(model, graph)
    with torch.no_grad():  # two inputs, so that the batch is not mistaken for an axis of size 1
        writer.run(model.preprocess(model.probe()))
    written = tuple(writer.written)
    compare(model, written, tensors_of)
    return written


def tensors_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """The parameters and buffers by name, alive, so that what is trained is seen. A shared one has all its names."""
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }


class _Writer(fx.Interpreter):
    """Runs the graph once and writes down an operation for each value that depends on the input."""

    def __init__(self, model: Model, graph: fx.Graph) -> None:
        super().__init__(model.module, graph=graph)
        self.extra_traceback = False  # what we refuse is said in a sentence of our own
        self.written = [Operation("input", "input", (), model.input_shape)]
        self._keys = {id(tensor): key for key, tensor in reversed(tensors_of(model.module).items())}
        self._values: dict[fx.Node, Value] = {}
        self._call_facts = CallFacts()
        preprocessing = model.card.preprocessing
        if preprocessing.layout != "channels-first":
            raise ModelError("A network that takes pictures with the channels last cannot be certified yet.")
        if preprocessing.mean:
            # As the network computes it: with numbers that are rounded to its own type.
            mean, std = (
                torch.tensor(numbers, dtype=model.dtype).double() for numbers in (preprocessing.mean, preprocessing.std)
            )
            settings = {"factor": (1 / std).tolist(), "offset": (-mean / std).tolist()}
            self._write(
                "preprocessing", Written("scale", (Value("input", model.input_shape),), settings), model.input_shape
            )

    def run_node(self, n: fx.Node) -> Any:
        """Compute the node, and write it down."""
        given = {node: self.env[node] for node in n.all_input_nodes}
        versions = {node: value._version for node, value in given.items() if isinstance(value, torch.Tensor)}
        result = super().run_node(n)
        if n.op == "placeholder":
            last = self.written[-1]
            self._values[n] = Value(last.name, last.shape)
        elif n.op == "output":
            self._end(n)
        elif self._call_facts.is_asked_by(n, given):
            pass
        elif any(node in self._values for node in given):
            changed = [node for node, version in versions.items() if given[node]._version != version]
            self._follow(n, result, changed)
        else:
            self._call_facts.pass_on(n, given)
        return result

    def _follow(self, node: fx.Node, result: Any, changed: list[fx.Node]) -> None:
        part = self.submodules[str(node.target)] if node.op == "call_module" else None
        target = node.target if part is None else type(part)
        seen: Any = lambda n: self._values.get(n, self.env.get(n))  # noqa: E731
        args, kwargs = cast(Any, fx.node.map_arg((node.args, node.kwargs), seen))
        try:
            if target not in RULES:
                raise NoRule("there is no rule for how much it can stretch what it is given")
            self._call_facts.require_same(node, target)
            if not isinstance(result, torch.Tensor):
                raise NoRule(f"it makes a {type(result).__name__} of its input, not a tensor")
            if result.ndim == 0 or len(result) != 2:
                raise NoRule(f"of a batch of 2 it makes a result of shape {tuple(result.shape)}: it mixes inputs")
            if any(self._is_shared(other) for other in changed):
                raise NoRule("it changes a value in place that is used elsewhere too")
            shape = tuple(result.shape[1:])
            try:
                found = RULES[target](Call(target, part, args, kwargs, shape, self._key))
            except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
                raise NoRule(f"it is called in a way that has no rule ({error})") from error
        except NoRule as error:
            name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
            what_next = _OF_CODE if isinstance(self.module, fx.GraphModule) else _REPLACE
            raise ModelError(
                f"The network cannot be certified because of '{node.target if part is not None else node.name}' "
                f"({name}): {error}. {what_next}"
            ) from error
        if found.kind is None:  # dropout in eval mode and the like
            self._values[node] = found.inputs[0]
        else:
            self._values[node] = self._write(node.name if part is None else str(node.target), found, shape)

    def _is_shared(self, changed: fx.Node) -> bool:
        """Whether another node reads the memory that was changed; the interpreter keeps what is still needed."""
        memory = self.env[changed].untyped_storage().data_ptr()
        others = [value for node, value in self.env.items() if node is not changed and isinstance(value, torch.Tensor)]
        shared = any(value.untyped_storage().data_ptr() == memory for value in others)
        return shared or len(changed.users) > 1 or changed not in self._values

    def _write(self, name: str, found: Written, shape: tuple[int, ...]) -> Value:
        """Add an operation, under a name that no other has."""
        assert found.kind is not None
        taken = {operation.name for operation in self.written}
        unique = name
        while unique in taken:
            unique = f"{unique}'"
        inputs = tuple(value.name for value in found.inputs)
        self.written.append(Operation(unique, found.kind, inputs, shape, found.settings, found.tensors))
        return Value(unique, shape)

    def _key(self, tensor: Any) -> str:
        if id(tensor) not in self._keys:
            raise NoRule(
                "its weight is not a parameter or buffer but computed on the way (a parametrisation?); "
                "torch.nn.utils.parametrize.remove_parametrizations makes it one"
            )
        return self._keys[id(tensor)]

    def _end(self, node: fx.Node) -> None:
        """Keep what the logits are made of, with the logits last."""
        (returned,) = node.args
        if not isinstance(returned, fx.Node) or returned not in self._values:
            raise ModelError("The network cannot be certified: what it returns is not one tensor made of its input.")
        needed = {self._values[returned].name}
        for operation in reversed(self.written):
            if operation.name in needed:
                needed.update(operation.inputs)
        self.written = [operation for operation in self.written if operation.name in needed]


def require_plain(module: nn.Module) -> None:
    """Refuse what no trace shows, and a comparison at a few inputs may miss."""
    for name, part in module.named_modules():
        if part._forward_hooks or part._forward_pre_hooks or "forward" in vars(part):
            raise ModelError(
                f"The network cannot be certified: '{name or 'the module'}' has a hook or a forward of its own, which "
                "may change what it computes. Remove it (weight_norm and spectral_norm of torch.nn.utils are such "
                "hooks, too; remove_weight_norm and remove_spectral_norm leave the weight that they computed)."
            )
