"""Programs: the traced graph of a network, divided at several places into graphs of their own."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import fx, nn

from modelkeep.core.errors import SliceError
from modelkeep.core.slices.crossing import Crossing
from modelkeep.core.slices.graphs import Untraceable, _find, _graph_module, _nodes_in, _trace, _Tracer
from modelkeep.core.slices.halves import Place, unknown_place

SHAPES = {"size", "dim", "numel", "nelement", "ndimension", "shape", "ndim", "dtype", "device"}


@dataclass(frozen=True)
class Program:
    """A piece in one mode: the received tensors that it `overwrites` are copied first."""

    graph: fx.GraphModule
    enters: Crossing | None
    leaves: Crossing | None
    overwrites: tuple[bool, ...]

    def with_gradients(self, gradients: Sequence[torch.Tensor | None]) -> Program:
        """The same, when the gradients of what it gives were seen once."""
        return self if self.leaves is None else replace(self, leaves=self.leaves.with_gradients(gradients))


def programs_of(module: nn.Module, cuts: Sequence[Place], prepared: torch.Tensor) -> list[Program]:
    """The programs of all pieces, in the mode in which the network is."""
    training = module.training
    try:
        tracer, graph = _trace(module)
    except Untraceable as error:
        raise SliceError(
            f"torch.fx cannot follow this network ({error}), so no piece of it can run without the rest. Where its "
            "path depends on the data, write that part as a module of torch.nn, or hold the network whole."
        ) from error
    nodes = list(graph.nodes)
    ends = [_end(module, tracer, graph, place) for place in cuts]
    for (first, second), (end, following) in zip(pairwise(cuts), pairwise(ends), strict=True):
        if following <= end:
            raise SliceError(f"Cuts must be in the order of the run: '{second}' does not come after '{first}'.")
    piece_of = _assigned(nodes, ends, _tensors(module, graph, prepared))
    found: list[Program] = []
    row, enters = (prepared,), None
    for i in range(len(cuts) + 1):
        takes, gives = _crossing(nodes, piece_of, i), _crossing(nodes, piece_of, i + 1)
        program = _graph_module(module, _graph(nodes, piece_of, i, takes, gives)).train(training)
        # The copies begin with version 0, and every write into them counts.
        received = [v.detach().clone() if isinstance(v, torch.Tensor) else v for v in row]
        with torch.no_grad():
            values = program.forward(*(received if enters is None else enters.unpack(received)))
        overwrites = tuple(isinstance(v, torch.Tensor) and v._version > 0 for v in received)
        leaves = Crossing.of([node.name for node in gives], values) if i < len(cuts) else None
        found.append(Program(program, enters, leaves, overwrites))
        row, enters = () if leaves is None else leaves.pack(values), leaves
    return found


def _end(module: nn.Module, tracer: _Tracer, graph: fx.Graph, place: Place) -> int:
    """How many nodes had run when the place had given its result."""
    try:
        returned, end = _find(module, tracer, graph, place)
    except Untraceable as error:
        known = [*dict.fromkeys(path for path, _, _ in tracer.calls), *(node.name for node in graph.nodes)]
        there = place.name in dict(module.named_modules(remove_duplicate=False))
        why = "torch.fx sees no call of it" if there else "there is no module of that name"
        raise unknown_place(place.name, why, known) from error
    later = set(list(graph.nodes)[end:])
    if not any(later.intersection(node.users) for node in _nodes_in(returned)):
        raise SliceError(
            f"Cannot cut at '{place}': nothing after it uses what it returns. Does it work in place? "
            "Cut before it, or at the next module."
        )
    return end


def _tensors(module: nn.Module, graph: fx.Graph, prepared: torch.Tensor) -> set[fx.Node]:
    """The nodes that give a tensor, not a nest, a size or an index."""
    found: set[fx.Node] = set()

    class Watch(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            result = super().run_node(n)
            if isinstance(result, torch.Tensor):
                found.add(n)
            return result

    with torch.no_grad():
        Watch(module, graph=graph).run(prepared.clone())
    return found


def _assigned(nodes: list[fx.Node], ends: list[int], tensors: set[fx.Node]) -> dict[fx.Node, int]:
    """Which piece runs which node: that in whose stretch of the run it is.

    But taking a part of a nest, or reading the shape of a tensor, is done as early as it can be: else a whole nest,
    or a whole tensor (often the input itself), would cross for it.
    """
    found: dict[fx.Node, int] = {}
    for position, node in enumerate(nodes):
        found[node] = sum(end <= position for end in ends)
        what = node.args[1] if node.target is getattr else node.target
        part = node.target is operator.getitem and node.args[0] not in tensors
        if node.op in ("call_function", "call_method") and (part or what in SHAPES):
            found[node] = max(found[used] for used in node.all_input_nodes)
    return found


def _crossing(nodes: list[fx.Node], piece_of: dict[fx.Node, int], i: int) -> list[fx.Node]:
    """What is computed before piece `i` and used in it or after it; the first takes the input.

    Parameters do not cross: a piece reads its own.
    """
    if i == 0:
        return nodes[:1]
    return [
        node
        for node in nodes
        if node.op != "get_attr" and piece_of[node] < i and any(piece_of[user] >= i for user in node.users)
    ]


def _graph(
    nodes: list[fx.Node], piece_of: dict[fx.Node, int], i: int, takes: list[fx.Node], gives: list[fx.Node]
) -> fx.Graph:
    graph = fx.Graph()
    copies = {node: graph.placeholder(node.name) for node in takes}
    for node in nodes:
        mine = piece_of[node] == i and node.op != "placeholder"
        if node.op == "get_attr":
            mine = any(piece_of[user] == i for user in node.users)
        if mine:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    if nodes[-1] not in copies:
        graph.output([copies[node] for node in gives])
    return graph
