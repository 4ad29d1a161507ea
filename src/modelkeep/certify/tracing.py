"""From the owner's module to the operations that it is made of; what has no rule is refused by name."""

from __future__ import annotations

import copy
from typing import Any, cast

import torch
from torch import fx, nn

from modelkeep.architectures.minmax import MinMax
from modelkeep.certify.operations import Operation
from modelkeep.certify.rules import RULES, Call, NoRule, Value, Written
from modelkeep.certify.running import run
from modelkeep.errors import ModelError
from modelkeep.model import Model
from modelkeep.slices.traced import Untraceable, followed


def operations(model: Model) -> tuple[Operation, ...]:
    """The network of `model` from the owner's input to the logits, preprocessing included, as a list of operations.

    The list is compared with the network itself on the probe, in float64: hooks, work in place on shared values and
    whatever else a trace does not show is found there.

    >>> model = Model(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), input_shape=(2, 2), classes=2)
    >>> [operation.kind for operation in operations(model)]
    ['input', 'reshape', 'dense']
    """
    model.require_eval()
    try:
        graph = followed(model.module, leaves=(MinMax,))
    except Untraceable as error:
        raise ModelError(
            f"The network cannot be written down as operations: torch.fx cannot follow it ({error}). "
            "A network that decides by its input what to compute has no rule."
        ) from error
    writer = _Writer(model, graph)
    with torch.no_grad():  # two inputs, so that the batch is not mistaken for an axis of size 1
        writer.run(model.preprocess(model.probe()))
    written = tuple(writer.written)
    _compare(model, written)
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
        self.written = [Operation("input", "input", (), model.input_shape)]
        self._keys = {id(tensor): key for key, tensor in reversed(tensors_of(model.module).items())}
        self._values: dict[fx.Node, Value] = {}
        preprocessing = model.card.preprocessing
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
        result = super().run_node(n)
        if n.op == "placeholder":
            last = self.written[-1]
            self._values[n] = Value(last.name, last.shape)
        elif n.op == "output":
            self._end(n)
        elif isinstance(result, torch.Tensor) and any(node in self._values for node in n.all_input_nodes):
            self._follow(n, result)
        return result

    def _follow(self, node: fx.Node, result: torch.Tensor) -> None:
        part = self.submodules[str(node.target)] if node.op == "call_module" else None
        target = node.target if part is None else type(part)
        seen: Any = lambda n: self._values.get(n, self.env.get(n))  # noqa: E731
        args, kwargs = cast(Any, fx.node.map_arg((node.args, node.kwargs), seen))
        try:
            if target not in RULES:
                raise NoRule("there is no rule for how much it can stretch what it is given")
            if len(result) != 2:
                raise NoRule(f"of a batch of 2 it makes {len(result)}: it mixes inputs")
            shape = tuple(result.shape[1:])
            found = RULES[target](Call(target, part, args, kwargs, shape, self._key))
            if found.in_place and len(node.all_input_nodes[0].users) > 1:
                raise NoRule("it changes a value in place that is used elsewhere too")
        except NoRule as error:
            name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
            raise ModelError(
                f"The network cannot be certified because of '{node.target if part is not None else node.name}' "
                f"({name}): {error}. Replace it by an operation that has a rule; the documentation lists them."
            ) from error
        if found.kind is None:  # dropout in eval mode and the like
            self._values[node] = found.inputs[0]
        else:
            self._values[node] = self._write(node.name if part is None else str(node.target), found, shape)

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


def _compare(model: Model, written: tuple[Operation, ...]) -> None:
    """Refuse a list of operations that does not compute what the network computes."""
    exact = copy.deepcopy(model.module).double()
    probe = model.probe().double()
    tensors = tensors_of(exact)
    with torch.no_grad():
        theirs = exact(model.card.preprocessing.module(model.input_shape).to(model.device, model.dtype).double()(probe))
        ours = run(written, probe, tensors)[written[-1].name]
    if ours.shape != theirs.shape or not torch.allclose(ours, theirs, rtol=1e-9, atol=1e-9):
        raise ModelError(
            "The network cannot be certified: what torch.fx sees of it does not compute what it computes. "
            "Does it have hooks, or change values in place?"
        )
