"""Cutting a network that torch.fx can trace: two graphs that share the network's own modules and parameters."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

from modelkeep.core.errors import SliceError
from modelkeep.core.slices.halves import Halves, Place, first_tensor, which_call


class Untraceable(Exception):
    """torch.fx cannot follow this network to this place; hooks can."""


class _Proxy(fx.Proxy):
    """A traced value for which `a += b` changes `a`, as it does for a tensor; torch.fx would make it `a = a + b`."""


def _in_place(name: str) -> Any:
    target = getattr(operator, name)
    return lambda self, other: self.tracer.create_proxy("call_function", target, (self, other), {})


for _name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor"):
    setattr(_Proxy, f"__{_name}__", _in_place(_name))


class _Tracer(fx.Tracer):
    """Follows a network and notes, for each module call, what it returned and how far the run had come."""

    def __init__(self, leaves: tuple[type[nn.Module], ...] = ()) -> None:
        super().__init__()
        self.leaves = leaves
        self.calls: list[tuple[str, Any, int]] = []

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, self.leaves) or super().is_leaf_module(m, module_qualified_name)

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Proxy(node, self)

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        returned = super().call_module(m, forward, args, kwargs)
        self.calls.append((self.path_of_module(m), returned, len(self.graph.nodes)))
        return returned


def traced_places(module: nn.Module, probe: torch.Tensor) -> tuple[str, ...]:
    """The module names and tensor operations of a traced network, in the order of the run."""
    tracer, graph = _trace(module)
    ends = [(end, path) for path, _, end in tracer.calls]
    tensors = _tensor_operations(module, graph, probe)
    operations = [(i + 1, node.name) for i, node in enumerate(graph.nodes) if node in tensors]
    return tuple(dict.fromkeys(name for _, name in sorted(ends + operations, key=lambda place: place[0])))


def traced_halves(module: nn.Module, before: nn.Module, place: Place, until: Place | None, *, anew: bool) -> Halves:
    """Cut the traced graph right after the named module call or operation; unless `anew`, a graph that was kept."""
    programs = _programs(module, place, until, anew)
    names = {id(parameter): path for path, parameter in module.named_parameters()}

    def run_before(x: torch.Tensor) -> tuple[Any, tuple[Any, ...]]:
        found, around = programs.head(before(x))
        return found, tuple(around)

    def run_after(found: Any, around: tuple[Any, ...]) -> torch.Tensor:
        return first_tensor(programs.tail(*found, *around))

    return Halves(
        before=run_before,
        after=run_after,
        parameters_before={names[id(p)]: p for p in programs.head.parameters()},
        parameters_after={names[id(p)]: p for p in programs.tail.parameters()},
        carries=programs.carries,
        traced=True,
    )


@dataclass(frozen=True)
class _Programs:
    """The two graphs of a cut, and the names of the tensors that pass around the place."""

    head: fx.GraphModule
    tail: fx.GraphModule
    carries: tuple[str, ...]


# Tracing takes as long as explaining ten small images, and a network is cut at the same place again and again. What is
# kept shares the network's modules, so it is right for new weights too; a replaced part changes the key.
_KEPT: WeakKeyDictionary[nn.Module, dict[Any, _Programs]] = WeakKeyDictionary()


def _programs(module: nn.Module, place: Place, until: Place | None, anew: bool) -> _Programs:
    key = (place, until, identity(module))
    kept = _KEPT.setdefault(module, {})
    if anew:
        kept[key] = _cut_graph(module, place, until)
    if key not in kept:
        raise Untraceable("it was not traced before")
    return kept[key]


_PLAIN = (bool, int, float, str)


def identity(module: nn.Module) -> tuple[Any, ...]:
    """What changes when a part of the network, or a plain setting of a part, is replaced; weights may change.

    It is asked for at every cut, so it goes through the network once and looks at nothing twice.
    """
    found: list[Any] = []
    for name, part in module.named_modules():
        found += (name, id(part))
        found += map(id, part._parameters.values())
        found += map(id, part._buffers.values())
        for key, value in vars(part).items():
            kind = type(value)
            if kind in _PLAIN:
                found.append(value)
            # What torch itself keeps in dicts, such as hooks and parameters, begins with an underscore.
            elif kind in (tuple, list, dict) and key[0] != "_" and _is_plain(value):
                found.append(repr(value))
    return tuple(found)


def _is_plain(value: Any) -> bool:
    """Whether a nest holds plain settings and nothing else."""
    return all(leaf is None or isinstance(leaf, _PLAIN) for leaf in pytree.tree_leaves(value))


def _cut_graph(module: nn.Module, place: Place, until: Place | None) -> _Programs:
    tracer, graph = _trace_around(module)
    returned, end = _find(module, tracer, graph, place)
    if until is not None:
        _end_at(graph, *_find(module, tracer, graph, until))
    nodes = list(graph.nodes)
    if end >= len(nodes):
        raise SliceError(f"Cannot go from '{place}' until '{until}': '{until}' is computed first.")
    first, second = nodes[:end], nodes[end:]
    values = list(dict.fromkeys(_nodes_in(returned)))
    needed = {used for node in second for used in node.all_input_nodes}
    if not needed.intersection(values):
        if until is not None:
            raise SliceError(f"Cannot go from '{place}' until '{until}': '{until}' does not depend on '{place}'.")
        raise SliceError(
            f"Cannot cut at '{place}': nothing after it uses what it returns. Does it work in place? "
            "Cut before it, or at the next module."
        )
    # Parameters are not carried: each half reads them from the network itself.
    carried = [node for node in first if node in needed and node.op != "get_attr" and node not in values]
    head = _graph_module(module, _first_graph(first, values, carried))
    tail = _graph_module(module, _second_graph(nodes, end, values, carried))
    return _Programs(head, tail, tuple(node.name for node in carried))


def trace_graph(module: nn.Module, leaves: tuple[type[nn.Module], ...]) -> fx.Graph:
    """The graph of the network, or Untraceable; modules of the classes `leaves` are not looked into."""
    return _trace(module, leaves)[1]


def _trace(module: nn.Module, leaves: tuple[type[nn.Module], ...] = ()) -> tuple[_Tracer, fx.Graph]:
    tracer = _Tracer(leaves)
    try:
        graph = tracer.trace(module)
    except Exception as error:  # whatever the owner's code raises when it is handed a proxy
        raise Untraceable(str(error)) from error
    if sum(node.op == "placeholder" for node in graph.nodes) != 1:
        raise Untraceable("the network takes more than one input")
    return tracer, graph


def _trace_around(module: nn.Module) -> tuple[_Tracer, fx.Graph]:
    """The trace, or one that does not look into networks of Hugging Face, which torch.fx cannot follow.

    What comes after such a part, as the head of a text classifier does, can then be run without it.
    """
    try:
        return _trace(module)
    except Untraceable:
        library = {type(part) for part in module.modules() if type(part).__module__.startswith("transformers.")}
        if not library:
            raise
        return _trace(module, tuple(library))


def _find(module: nn.Module, tracer: _Tracer, graph: fx.Graph, place: Place) -> tuple[Any, int]:
    """What the place returned, in terms of the graph's nodes, and how many nodes had run by then."""
    name, call = place.name, place.call
    wanted = dict(module.named_modules(remove_duplicate=False)).get(name)
    # The tracer knows a shared module by its first name only.
    calls = [] if wanted is None else [c for c in tracer.calls if module.get_submodule(c[0]) is wanted]
    if calls:
        _, returned, end = calls[which_call(name, call, len(calls))]
        return fx.node.map_aggregate(returned, lambda v: v.node if isinstance(v, fx.Proxy) else v), end
    for i, node in enumerate(graph.nodes):
        if wanted is None and node.name == name and node.op in ("call_function", "call_method"):
            which_call(name, call, 1)
            return node, i + 1
    raise Untraceable(f"'{name}' is not in the trace")


def _end_at(graph: fx.Graph, returned: Any, end: int) -> None:
    """Let the program end there, and return what the place returned (the first of several tensors)."""
    for node in reversed(list(graph.nodes)[end:]):
        graph.erase_node(node)
    graph.output(_nodes_in(returned)[0])


def _nodes_in(returned: Any) -> list[fx.Node]:
    return [leaf for leaf in pytree.tree_leaves(returned) if isinstance(leaf, fx.Node)]


def _first_graph(first: list[fx.Node], place: list[fx.Node], carried: list[fx.Node]) -> fx.Graph:
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in first:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(([copies[node] for node in place], [copies[node] for node in carried]))
    return graph


def _second_graph(nodes: list[fx.Node], end: int, place: list[fx.Node], carried: list[fx.Node]) -> fx.Graph:
    graph = fx.Graph()
    copies = {node: graph.placeholder(node.name) for node in (*place, *carried)}
    needed = {used for node in nodes[end:] for used in node.all_input_nodes}
    for node in nodes[:end]:
        if node.op == "get_attr" and node in needed:
            copies[node] = graph.node_copy(node)
    for node in nodes[end:]:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    return graph


def _graph_module(module: nn.Module, graph: fx.Graph) -> fx.GraphModule:
    return fx.GraphModule(module, graph).eval()


def _tensor_operations(module: nn.Module, graph: fx.Graph, probe: torch.Tensor) -> set[fx.Node]:
    """The function and method calls that give a tensor (not a size or an index)."""
    found: set[fx.Node] = set()

    class Watch(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            result = super().run_node(n)
            if n.op in ("call_function", "call_method") and isinstance(result, torch.Tensor):
                found.add(n)
            return result

    with torch.no_grad():
        Watch(module, graph=graph).run(probe)
    return found
