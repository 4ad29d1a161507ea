"""Network: the owner's module as affine maps with squares between them, which is all that CKKS can compute.

What stands between two squares (convolutions, batch norms, average pools, reshapings, preprocessing) is one affine map,
however many layers it has, and takes one level. It is found by running the traced layers on the unit vectors, so no
layer needs a rule of its own; that the stretch is affine is then tested on other inputs.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import fx, nn

from modelkeep.core.errors import EncryptError, ModelError
from modelkeep.core.model import Model
from modelkeep.core.slices.graphs import Untraceable, trace_graph
from modelkeep.encrypt.ckks.affine import Affine, Network
from modelkeep.encrypt.ckks.scheme import Floats
from modelkeep.encrypt.polynomial import remedies

WIDEST = 4096  # values between two layers; beyond that the matrix of a stretch no longer fits into memory
AFFINE = 1e-9  # a stretch of layers is affine if its map is right to this share of the largest value, in float64
_SQUARES = {torch.square, torch.ops.aten.square.default}
_POWERS = {torch.pow, operator.pow, torch.ops.aten.pow.Tensor_Scalar}
_PRODUCTS = {torch.mul, operator.mul, torch.ops.aten.mul.Tensor}


def read_network(model: Model) -> Network:
    """The affine maps of a model, or an EncryptError that names the layer and the change that would help.

    >>> from modelkeep.encrypt.polynomial import Polynomial
    >>> module = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), Polynomial(), nn.Linear(3, 2)).eval()
    >>> [a.weight.shape for a in read_network(Model(module, input_shape=(2, 2), classes=2)).maps]
    [(3, 4), (2, 3)]
    """
    model.require_eval()
    walk = _Walk(model)
    ends = [*walk.squares, walk.last]
    maps = []
    start, at = walk.first, model.input_shape
    for end in ends:
        source = end if end is walk.last else _squared(end)
        maps.append(walk.affine(start, source, at))
        start, at = end, walk.shape_of(source)
    network = Network(tuple(maps))
    _compare(model, network)
    return network


class _Walk(fx.Interpreter):
    """Runs stretches of the traced network, in float64."""

    def __init__(self, model: Model) -> None:
        self.model = Model.from_card(deepcopy(model.module).double(), model.card)
        try:
            graph = trace_graph(self.model.module, leaves=())
        except Untraceable as error:
            raise ModelError(f"The network cannot be planned: torch.fx cannot follow it ({error}).") from error
        super().__init__(self.model.module, graph=graph)
        self.extra_traceback = False
        self.nodes = list(graph.nodes)
        self.first = next(node for node in self.nodes if node.op == "placeholder")
        output = next(node for node in self.nodes if node.op == "output")
        self.last = next(iter(output.all_input_nodes))
        self.dependent = self._follow()
        self.squares = [node for node in self.nodes if node in self.dependent and _is_square(node)]
        self.shapes: dict[fx.Node, tuple[int, ...]] = {}
        self.structure = _with_ones(self.model.module)

    def _follow(self) -> set[fx.Node]:
        """The nodes that depend on the input."""
        found = {self.first}
        for node in self.nodes:
            if any(used in found for used in node.all_input_nodes):
                found.add(node)
        return found

    def shape_of(self, node: fx.Node) -> tuple[int, ...]:
        """The shape of an example at a node that was run."""
        return self.shapes[node]

    @torch.no_grad()
    def affine(self, start: fx.Node, end: fx.Node, shape: tuple[int, ...]) -> Affine:
        """The affine map from the value of one node to that of another; the input's preprocessing goes with it."""
        width = int(np.prod(shape))
        if width > WIDEST:
            raise EncryptError(
                f"The input of layer '{_name(self.after(start))}' has {width} values; at most {WIDEST} can be planned. "
                "Use a stride or a pool before it."
            )
        rows = torch.cat([torch.zeros(1, width), torch.eye(width)]).double()
        outputs = self.run_stretch(start, end, rows.reshape(-1, *shape))
        self.shapes[end] = tuple(outputs.shape[1:])
        flat = outputs.reshape(width + 1, -1)
        bias = flat[0]
        weight = (flat[1:] - bias).T
        self._require_affine(start, end, shape, weight, bias)
        stretch = [node for node in self.between(start, end) if node in self.dependent and node in _ancestors(end)]
        named = [str(node.target) for node in stretch if node.op == "call_module"]
        name = ", ".join(dict.fromkeys(named or [node.name for node in stretch]))
        return Affine(name, weight.numpy().copy(), bias.numpy().copy(), self._pattern(start, end, shape))

    def after(self, start: fx.Node) -> fx.Node:
        """The next node that uses the value of `start`."""
        return next(iter(start.users), start)

    def between(self, start: fx.Node, end: fx.Node) -> list[fx.Node]:
        """The nodes after `start`, up to and with `end`."""
        return self.nodes[self.nodes.index(start) + 1 : self.nodes.index(end) + 1]

    def run_stretch(self, start: fx.Node, end: fx.Node, values: torch.Tensor) -> torch.Tensor:
        """The value of `end` where `start` has these values."""
        self.env = {start: self.model.preprocess(values) if start is self.first else values}
        for node in self.nodes:
            if node not in self.dependent and node.op != "output":
                self.env[node] = self.run_node(node)
        needed = _ancestors(end)
        for node in self.between(start, end):
            if node in self.dependent and node in needed:
                around = [used for used in node.all_input_nodes if used not in self.env]
                if around:
                    raise EncryptError(
                        f"Layer '{_name(node)}' uses '{_name(around[0])}' from before the activation: a connection "
                        "that skips an activation cannot be planned. Use a network without it."
                    )
                self.env[node] = self.run_node(node)
        found = self.env[end]
        assert isinstance(found, torch.Tensor)
        return found

    def _pattern(self, start: fx.Node, end: fx.Node, shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        trained, self.module = self.module, self.structure
        self.submodules = dict(self.structure.named_modules())
        try:
            width = int(np.prod(shape))
            rows = torch.cat([torch.zeros(1, width), torch.eye(width)]).double()
            flat = self.run_stretch(start, end, rows.reshape(-1, *shape)).reshape(width + 1, -1)
        finally:
            self.module = trained
            self.submodules = dict(trained.named_modules())
        return ((flat[1:] - flat[0]).abs() > AFFINE).T.numpy()

    def _require_affine(
        self, start: fx.Node, end: fx.Node, shape: tuple[int, ...], weight: torch.Tensor, bias: torch.Tensor
    ) -> None:
        """Refuse a stretch that is not affine, by the name of the first layer that is not."""
        x = _probes(shape)
        got = self.run_stretch(start, end, x).reshape(len(x), -1)
        wanted = x.reshape(len(x), -1) @ weight.T + bias
        if (got - wanted).abs().max() <= AFFINE * max(1.0, float(got.abs().max())):
            return
        for node in self.between(start, end):
            if node in _ancestors(end) and node in self.dependent and not self._is_affine(start, node, shape):
                raise EncryptError(_refusal(node, self.model.module))
        raise EncryptError(_refusal(end, self.model.module))

    def _is_affine(self, start: fx.Node, node: fx.Node, shape: tuple[int, ...]) -> bool:
        x = _probes(shape)
        points = torch.cat([torch.zeros_like(x[:1]), x, x[:1] + x[1:2]])
        found = self.run_stretch(start, node, points)
        if not isinstance(found, torch.Tensor) or len(found) != len(points):
            return True  # a size or another plain value
        error = found[0] + found[-1] - found[1] - found[2]
        middle = self.run_stretch(start, node, 0.5 * points)[1:] - 0.5 * (found[0] + found[1:])
        largest = max(1.0, float(found.abs().max()))
        return max(float(error.abs().max()), float(middle.abs().max())) <= AFFINE * largest


def _probes(shape: tuple[int, ...]) -> torch.Tensor:
    """Inputs of both signs and of several sizes, on which a map that is only piecewise affine shows."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(8, *shape, generator=generator, dtype=torch.float64)
    sizes = torch.tensor([1.0, 1.0, 0.01, 0.1, 10.0, 100.0, 3.0, 30.0], dtype=torch.float64)
    return x * sizes.reshape(-1, *(1 for _ in shape))


def _with_ones(module: nn.Module) -> nn.Module:
    """A copy whose weights are all one, so that nothing cancels and the structure alone shows."""
    copy = deepcopy(module)
    with torch.no_grad():
        for parameter in copy.parameters():
            if parameter.dim() >= 1:
                parameter.fill_(1.0)
    return copy


def _is_square(node: fx.Node) -> bool:
    target, given = node.target, node.args
    if node.op == "call_function":
        power = target in _POWERS and given[1] in (2, 2.0)
        product = target in _PRODUCTS and len(given) == 2 and given[0] is given[1]
        return target in _SQUARES or power or product
    return node.op == "call_method" and (target == "square" or (target == "pow" and given[1] in (2, 2.0)))


def _squared(node: fx.Node) -> fx.Node:
    return node.all_input_nodes[0]


def _ancestors(end: fx.Node) -> set[fx.Node]:
    found: set[fx.Node] = set()
    waiting = [end]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting.extend(node.all_input_nodes)
    return found


def _name(node: fx.Node) -> str:
    return str(node.target) if node.op == "call_module" else node.name


def _refusal(node: fx.Node, module: nn.Module) -> str:
    part = module.get_submodule(str(node.target)) if node.op == "call_module" else None
    for classes, remedy in remedies():
        if isinstance(part, classes):
            return f"Layer '{_name(node)}' is a {type(part).__name__}, which is not a polynomial of degree 2: {remedy}."
    what = (
        f"a {type(part).__name__}" if part is not None else f"a call of {getattr(node.target, '__name__', node.target)}"
    )
    return (
        f"Layer '{_name(node)}' is {what}, which is neither affine nor a square. Encrypted values allow affine layers "
        "(convolution, linear, batch norm, average pool) and squares (modelkeep.encrypt.polynomial.Polynomial)."
    )


def _compare(model: Model, network: Network) -> None:
    """The maps must give the model's own logits; what a trace does not show must not go unnoticed."""
    x = model.probe()
    wanted: Sequence[Floats] = [model.logits(x).double().numpy()]
    got = network.values(x.reshape(len(x), -1).double().numpy())[-1]
    error = float(np.abs(got - wanted[0]).max())
    if error > 1e-3 * max(1.0, float(np.abs(wanted[0]).max())):
        raise ModelError(
            f"The network as it was read differs from the model by {error:.2g} on a probe. It is not planned."
        )
