"""Cutting a network that torch.fx cannot trace: hooks stop the run at the place, and put a value there in a new run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from modelkeep.core.errors import SliceError
from modelkeep.core.slices.halves import Halves, Place, first_tensor, unknown_place, which_call


class _Reached(BaseException):
    """Ends a run at the place. Not an Exception, so that no handler in the owner's code swallows it."""

    def __init__(self, output: Any) -> None:
        self.output = output


def hooked_places(module: nn.Module, probe: torch.Tensor) -> tuple[str, ...]:
    """The names of the modules that run, in the order in which they finish."""
    return tuple(dict.fromkeys(_finished(module, probe)))


def hooked_halves(
    module: nn.Module, before: nn.Module, place: Place, until: Place | None, probe: torch.Tensor
) -> Halves:
    """Cut after the named module's call. What passes around it is unknown, so the input itself is carried.

    `after` runs the whole network on that input and puts the value at the place: exact wherever the network is
    deterministic, and no skip connection is ever missed.
    """
    finished = _finished(module, before(probe))
    part, chosen = _called(module, finished, place)
    if until is not None:
        last, last_call = _called(module, finished, until)
        if _moment(finished, place.name, chosen) > _moment(finished, until.name, last_call):
            raise SliceError(f"Cannot go from '{place}' until '{until}': '{until}' is computed first.")

    def run_before(x: torch.Tensor) -> tuple[Any, tuple[Any, ...]]:
        return _stopped(lambda: module(before(x)), part, chosen, place), (x,)

    def run_after(value: Any, around: tuple[Any, ...]) -> torch.Tensor:
        with _at_call(part, chosen, lambda output: value):
            if until is None:
                return first_tensor(module(before(around[0])))
            return first_tensor(_stopped(lambda: module(before(around[0])), last, last_call, until))

    first, second = _parameter_sides(module, run_before, run_after, probe)
    return Halves(run_before, run_after, first, second, carries=("input",), traced=False)


def _called(module: nn.Module, finished: list[str], place: Place) -> tuple[nn.Module, int]:
    """The module of that name, and which of its calls is meant."""
    part = dict(module.named_modules(remove_duplicate=False)).get(place.name)
    calls = finished.count(place.name)
    if part is None or part is module or calls == 0:
        why = "there is no module of that name" if part is None else "no pass calls it"
        raise unknown_place(place.name, why, dict.fromkeys(finished))
    return part, which_call(place.name, place.call, calls)


def _moment(finished: list[str], name: str, call: int) -> int:
    """When in the run that call ended."""
    return [i for i, ended in enumerate(finished) if ended == name][call]


def _stopped(run: Callable[[], Any], part: nn.Module, call: int, place: Place) -> Any:
    """What `part` gives in that call; the run ends there."""

    def stop(output: Any) -> Any:
        raise _Reached(output)

    with _at_call(part, call, stop):
        try:
            run()
        except _Reached as reached:
            return reached.output
    raise SliceError(f"The network did not come to call {call} of '{place.name}' for these inputs.")


@contextmanager
def _at_call(part: nn.Module, chosen: int, action: Callable[[Any], Any]) -> Iterator[None]:
    """Run `action` on the output of the chosen call of `part`; what it returns takes the output's place."""
    count = 0

    def hook(_: nn.Module, __: Any, output: Any) -> Any:
        nonlocal count
        count += 1
        return action(output) if count == chosen + 1 else None

    handle = part.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _finished(module: nn.Module, prepared: torch.Tensor) -> list[str]:
    """Every module call of one run, under each of the module's names, in the order in which the calls end."""
    finished: list[str] = []
    names: dict[nn.Module, list[str]] = {}
    for name, part in module.named_modules(remove_duplicate=False):
        if part is not module:
            names.setdefault(part, []).append(name)
    handles = [part.register_forward_hook(lambda p, _, __: finished.extend(names[p])) for part in names]
    try:
        with torch.no_grad():
            module(prepared)
    finally:
        for handle in handles:
            handle.remove()
    return finished


def _parameter_sides(
    module: nn.Module,
    run_before: Callable[[torch.Tensor], tuple[Any, tuple[Any, ...]]],
    run_after: Callable[[Any, tuple[Any, ...]], torch.Tensor],
    probe: torch.Tensor,
) -> tuple[dict[str, nn.Parameter], dict[str, nn.Parameter]]:
    """Which parameters reach the value, and which reach the output once the value is fixed: autograd knows."""
    named = dict(module.named_parameters())
    flags = [(p, p.requires_grad) for p in named.values()]
    try:
        for parameter in named.values():
            parameter.requires_grad_(parameter.is_floating_point())
        with torch.enable_grad():
            value, around = run_before(probe)
            fixed = pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, value)
            return _reached_by(pytree.tree_leaves(value), named), _reached_by([run_after(fixed, around)], named)
    finally:
        for parameter, flag in flags:
            parameter.requires_grad_(flag)


def _reached_by(outputs: list[Any], named: dict[str, nn.Parameter]) -> dict[str, nn.Parameter]:
    """The parameters at the ends of the autograd graph. Walking it needs no backward pass, which could fail."""
    names = {id(parameter): name for name, parameter in named.items()}
    found: dict[str, nn.Parameter] = {}
    ahead = [o.grad_fn for o in outputs if isinstance(o, torch.Tensor) and o.grad_fn is not None]
    seen = set(ahead)
    while ahead:
        node = ahead.pop()
        variable = getattr(node, "variable", None)  # only the nodes that accumulate a leaf's gradient have one
        if variable is not None and id(variable) in names:
            found[names[id(variable)]] = variable
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                ahead.append(following)
    return {name: found[name] for name in named if name in found}
