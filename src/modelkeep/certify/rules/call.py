"""Call: what a rule is told about one call in the owner's network, and `Written`, what it makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from modelkeep.certify.operations import Kind


class NoRule(Exception):
    """This call, with these settings, has no rule; the message says which setting."""


@dataclass(frozen=True)
class Value:
    """An argument that depends on the input: the operation that made it, and its shape without the batch."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """A call of `target`: a module's class (the module is `part`), a function or a method's name."""

    target: Any
    part: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    shape: tuple[int, ...]
    key: Callable[[torch.Tensor], str]

    def bind(self, *names: str, **defaults: Any) -> dict[str, Any]:
        """The arguments by name: those of a function in their order, those of a module as its attributes."""
        if self.part is not None:
            return {
                names[0]: self.args[0],
                **{name: getattr(self.part, name, defaults.get(name)) for name in names[1:]},
            }
        return {**dict.fromkeys(names), **defaults, **dict(zip(names, self.args, strict=False)), **self.kwargs}

    def keys(self, **named: Any) -> dict[str, str]:
        """The state_dict's keys of these tensors; None stands for one that is not there."""
        if any(isinstance(tensor, Value) for tensor in named.values()):
            raise NoRule("its weights are made of the input")
        return {name: self.key(tensor) for name, tensor in named.items() if tensor is not None}


@dataclass(frozen=True)
class Written:
    """What a rule makes of a call; without a kind the call changes nothing."""

    kind: Kind | None
    inputs: tuple[Value, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, str] = field(default_factory=dict)


Rule = Callable[[Call], Written]
RULES: dict[Any, Rule] = {}


def rule(*targets: Any) -> Callable[[Rule], Rule]:
    """Enter a rule for module classes, functions and names of tensor methods."""

    def enter(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(targets, function))
        return function

    return enter


def value(argument: Any) -> Value:
    """The argument, which must depend on the input."""
    if not isinstance(argument, Value):
        raise NoRule("it takes something else than a value made of the input")
    return argument
