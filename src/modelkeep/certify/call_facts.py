"""Call facts: the size of the batch and the type of the input, followed through a trace until they meet a value.

They are not of the input alone: the same input in another batch, or as another type, has others. So they may say how
many inputs a value is of, and nothing else.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import fx

from modelkeep.certify.rules import NoRule

_Fact = Literal["batch", "shape", "other"]  # the size of the batch; a shape that begins with it; what is made of them
_RESHAPES = ("view", "reshape", torch.reshape, torch.ops.aten.view.default, torch.ops.aten.reshape.default)


class CallFacts:
    """Which nodes of a graph depend on a fact of the call."""

    def __init__(self) -> None:
        self._known: dict[fx.Node, _Fact] = {}

    def is_asked_by(self, node: fx.Node, given: Mapping[fx.Node, Any]) -> bool:
        """Whether the node only asks for the shape or type of a value; what it learns is noted."""
        asked = _asks(node)
        if asked is None:
            return False
        of, fact = asked
        axis = _axis(node) if fact == "shape" else None
        if axis is not None:
            fact = "batch" if axis % given[of].ndim == 0 else None
        if fact is not None:
            self._known[node] = fact
        return True

    def pass_on(self, node: fx.Node, given: Mapping[fx.Node, Any]) -> None:
        """Note what the node, which makes no value, makes of the facts that it is given."""
        if any(each in self._known for each in given) and (made := self._made(node, given)) is not None:
            self._known[node] = made

    def require_same(self, node: fx.Node, target: Any) -> None:
        """Refuse a node that makes a value of such a fact, other than by saying how many inputs it is of."""
        facts = {each: self._known[each] for each in node.all_input_nodes if each in self._known}
        if not facts:
            return
        if target in _RESHAPES:
            sizes = [*node.args[1:], *(value for name, value in node.kwargs.items() if name not in ("self", "input"))]
            if len(sizes) == 1 and isinstance(sizes[0], fx.Node) and facts.get(sizes[0]) == "shape":
                return
            first, *rest = sizes[0] if isinstance(sizes[0], list | tuple) else sizes
            clean = not any(each in facts for each in rest if isinstance(each, fx.Node))
            if isinstance(first, fx.Node) and facts.get(first) == "batch" and clean:
                return
        raise NoRule(
            "what it makes depends on the size of the batch or on the type of the input, so that the same input gets "
            "another answer in another call"
        )

    def _made(self, node: fx.Node, given: Mapping[fx.Node, Any]) -> _Fact | None:
        """What a node makes of facts; None where none is left in it."""
        if node.target is operator.getitem:
            of, at = node.args
            shape = isinstance(of, fx.Node) and self._known.get(of) == "shape"
            if shape and isinstance(at, int) and isinstance(of, fx.Node):
                return "batch" if at % len(given[of]) == 0 else None
            if shape and isinstance(at, slice) and isinstance(of, fx.Node):
                kept = range(len(given[of]))[at]
                return None if 0 not in kept else ("shape" if kept[0] == 0 else "other")
        if node.target is operator.add and isinstance(node.args[0], fx.Node):
            behind = node.args[1]
            if self._known.get(node.args[0]) == "shape" and isinstance(behind, tuple):
                return "shape"
        return "other"


def _asks(node: fx.Node) -> tuple[fx.Node, _Fact | None] | None:
    """What the node asks of which value; None where it computes something."""
    if not node.all_input_nodes:
        return None
    of = node.all_input_nodes[0]
    if node.op == "call_method":
        facts: dict[str, _Fact | None] = {"size": "shape", "dim": None, "ndimension": None, "numel": "other"}
        return (of, facts[node.target]) if node.target in facts else None
    if node.target is getattr:
        kinds: dict[Any, _Fact | None] = {"shape": "shape", "ndim": None, "dtype": "other", "device": "other"}
        return (of, kinds[node.args[1]]) if node.args[1] in kinds else None
    return (of, "shape") if node.target is torch.ops.aten.sym_size.int else None


def _axis(node: fx.Node) -> int | None:
    """The axis whose size is asked for; None for all of them."""
    if node.target is getattr:
        return None
    axis = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    return axis if isinstance(axis, int) else None
