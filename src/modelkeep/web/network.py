"""Network: the graph of a network as a person clicks on it: the places where it can be cut, and what each reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn

from modelkeep.core.model import Model
from modelkeep.core.slices.graphs import Untraceable, trace_graph

INPUT = "input"


@dataclass(frozen=True)
class NetworkPlace:
    """A place of the network: what stands there, the shape of its value, and the places whose values it reads.

    `depth` is how many modules it stands in. Without a shape, the place gives no single tensor.
    """

    name: str
    kind: str
    shape: tuple[int, ...] | None
    depth: int
    reads: tuple[str, ...]


def read_network(model: Model) -> tuple[NetworkPlace, ...]:
    """The places of `model.slices()` that a person tells apart, in the order of the run.

    The operations inside of a module count as that module, and a module that only holds others is left out: its value
    is that of the last of them. Where torch.fx cannot follow the network, each module is taken to read the one before.

    >>> model = Model(nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), input_shape=(2, 2), classes=3)
    >>> [(place.name, place.kind, place.shape, place.reads) for place in read_network(model)]
    [('input', 'input', (2, 2), ()), ('0', 'Flatten', (4,), ('input',)), ('1', 'Linear', (3,), ('0',))]
    """
    names = model.slices()
    kinds = {name: type(part).__name__ for name, part in model.module.named_modules() if name}
    try:
        graph = trace_graph(model.module, ())
    except Untraceable:
        return _in_a_row(model, names, kinds)
    return _as_traced(model, graph, names, kinds)


def _as_traced(
    model: Model, graph: fx.Graph, names: tuple[str, ...], kinds: Mapping[str, str]
) -> tuple[NetworkPlace, ...]:
    watch = _Watch(model.module, graph)
    with torch.no_grad():
        watch.run(model.preprocess(model.probe()))
    holders = {above for node in graph.nodes if node.op == "call_module" for above in _modules_above(str(node.target))}
    found: dict[str, _Found] = {INPUT: _Found(0, model.input_shape)}
    sources: dict[fx.Node, tuple[str, ...]] = {}  # the places that a node's value comes from
    for number, node in enumerate(graph.nodes):
        read = tuple(dict.fromkeys(name for used in node.all_input_nodes for name in sources[used]))
        owner = INPUT if node.op == "placeholder" else _owner(node, names, holders)
        sources[node] = read if owner is None else (owner,)
        if owner is None or node.op == "placeholder" or (owner not in found and node not in watch.shapes):
            continue
        place = found.setdefault(owner, _Found(number, None))
        place.number, place.shape = number, watch.shapes.get(node, place.shape)
        place.reads.update(dict.fromkeys(name for name in read if name != owner))
    ordered = sorted(found.items(), key=lambda item: item[1].number)
    return tuple(
        NetworkPlace(name, kinds.get(name, INPUT if name == INPUT else "operation"), place.shape, name.count("."),
                     tuple(place.reads))
        for name, place in ordered
    )  # fmt: skip


@dataclass
class _Found:
    """A place on the way: the number of its last node, and what is known by then."""

    number: int
    shape: tuple[int, ...] | None
    reads: dict[str, None] = field(default_factory=dict)


def _modules_above(name: str) -> list[str]:
    """The modules that hold the module called `name`.

    >>> _modules_above("a.b.c")
    ['a', 'a.b']
    """
    parts = name.split(".")
    return [".".join(parts[:i]) for i in range(1, len(parts))]


def _owner(node: fx.Node, names: tuple[str, ...], holders: set[str]) -> str | None:
    """The place that a node counts as: its module, else a module around it made of operations alone, else itself."""
    if node.op in ("get_attr", "output"):
        return None
    if node.op == "call_module":
        return str(node.target) if node.target in names else None
    around = [name for name in (node.meta.get("nn_module_stack") or {}) if name in names and name not in holders]
    if around:
        return str(around[-1])
    return node.name if node.name in names else None


class _Watch(fx.Interpreter):
    """Runs a graph, and notes the shape of each tensor on the way."""

    def __init__(self, module: nn.Module, graph: fx.Graph) -> None:
        super().__init__(module, graph=graph)
        self.shapes: dict[fx.Node, tuple[int, ...]] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, torch.Tensor):
            self.shapes[n] = tuple(result.shape[1:])
        return result


def _in_a_row(model: Model, names: tuple[str, ...], kinds: Mapping[str, str]) -> tuple[NetworkPlace, ...]:
    shapes: dict[str, tuple[int, ...] | None] = {INPUT: model.input_shape}

    def note(name: str) -> Callable[..., None]:
        def see(_module: nn.Module, _inputs: Any, output: Any) -> None:
            shapes[name] = tuple(output.shape[1:]) if isinstance(output, torch.Tensor) else None

        return see

    hooks = [part.register_forward_hook(note(name)) for name, part in model.module.named_modules() if name in names]
    try:
        with torch.no_grad():
            model.forward(model.probe())
    finally:
        for hook in hooks:
            hook.remove()
    places: list[NetworkPlace] = []
    for name in names:
        before = (places[-1].name,) if places else ()
        places.append(NetworkPlace(name, kinds.get(name, INPUT), shapes.get(name), name.count("."), before))
    return tuple(places)
