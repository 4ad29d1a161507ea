"""Comparison: the network against its operations, in every way in which its code could tell one call from another.

A trace shows one run. Code that reads the size of the batch, whether gradients are recorded, a random number or a
counter of its own may compute something else in the next run, and what was proved of the first would be wrong there.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import nn

from modelkeep.certify.interpreter import Tensors, run
from modelkeep.certify.operations import Operation
from modelkeep.core.errors import ModelError
from modelkeep.core.model import Model

BATCHES = (1, 2, 3, 5)
MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "without gradients": torch.no_grad,
    "with gradients": torch.enable_grad,
    "in inference mode": torch.inference_mode,
}
_SMALL = 4096  # numbers of a tensor whose values are compared, too
_DEPTH = 4  # of containers and objects that are looked into for changes


def compare(model: Model, written: tuple[Operation, ...], tensors: Callable[[nn.Module], Tensors]) -> None:
    """Refuse a list of operations that does not compute, in float64, what the network computes in every way."""
    exact = copy.deepcopy(model.module).double()
    x = inputs_to_compare(model).double()
    before = model.card.preprocessing.module(model.input_shape).to(model.device, model.dtype).double()
    prepared = before(x)
    with torch.no_grad():
        ours = run(written, x, tensors(exact))[written[-1].name]
    for words, n, found in answers(exact, prepared):
        if found.shape != ours[:n].shape or not torch.allclose(ours[:n], found, rtol=1e-9, atol=1e-9):
            raise ModelError(
                "The network cannot be certified: what torch.fx sees of it does not compute what it computes "
                f"{words}. Does it draw random numbers, change values in place, or depend on the size of the batch or "
                "on whether gradients are recorded?"
            )


def answers(module: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Iterator[tuple[str, int, torch.Tensor]]:
    """What the network makes of the first n of `x: (5, ...)`, for each n of `BATCHES` and in each of `MODES`.

    Refused is a network that another run leaves in another state, or that draws random numbers: it need not give the
    same answer the next time.
    """
    owner = module if isinstance(module, nn.Module) else None
    always_drawn = True  # once or twice it may be another thread
    for mode, context in MODES.items():
        for n in BATCHES:
            held, drawn = None if owner is None else _state(owner), _random_state()
            try:
                with context():
                    found = module(x[:n]).detach()
            except RuntimeError as error:
                raise ModelError(
                    f"The network cannot be certified: it cannot be run on a batch of {n} {mode} ({error})."
                ) from error
            always_drawn &= _random_state() != drawn
            # The first run of a size may fill a cache.
            if owner is not None and mode != next(iter(MODES)) and _state(owner) != held:
                raise ModelError(
                    "The network cannot be certified: it changes something of its own each time it is asked (a "
                    "counter, a cache, a buffer), so that the next answer may be another. Keep that outside of it."
                )
            yield f"at a batch of {n} {mode}", n, found
    if always_drawn:
        raise ModelError(
            "The network cannot be certified: it draws random numbers, so that the same input may get another "
            "answer. Leave the random layer out, or certify by smoothing, which draws its noise itself."
        )


def inputs_to_compare(model: Model) -> torch.Tensor:
    """Five different inputs between the two of the probe, `(5, *input_shape)`."""
    first, second = model.probe()
    steps = torch.linspace(0, 1, max(BATCHES), dtype=first.dtype, device=first.device)
    return torch.stack([first * (1 - step) + second * step for step in steps])


def _random_state() -> tuple[Any, ...]:
    return torch.default_generator.get_state().numpy().tobytes(), random.getstate(), repr(np.random.get_state())


def _state(module: nn.Module) -> tuple[Any, ...]:
    """What the next run could read: everything that the parts hold, but for the values of large tensors."""
    tensors = chain(module.parameters(), module.buffers())
    own = ("_parameters", "_buffers", "_modules")
    held = (_seen(value, _DEPTH) for part in module.modules() for key, value in vars(part).items() if key not in own)
    return tuple(_seen(tensor, 1) for tensor in tensors), tuple(held)


def _seen(value: Any, depth: int) -> Any:
    """The value as something that compares equal as long as it does not change."""
    if isinstance(value, torch.Tensor):
        # Writing through `data` leaves the version as it is.
        content = hash(value.detach().cpu().double().numpy().tobytes()) if value.numel() <= _SMALL else None
        return id(value), None if value.is_inference() else value._version, content
    if isinstance(value, torch.Generator):
        return value.get_state().numpy().tobytes()
    if isinstance(value, nn.Module) or depth == 0:
        return id(value)  # its parts are seen by themselves
    if isinstance(value, dict):
        return tuple((_seen(key, 0), _seen(each, depth - 1)) for key, each in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return type(value), tuple(_seen(each, depth - 1) for each in value)
    if isinstance(value, str | bytes | int | float | complex | bool | type(None)):
        return value
    if type(value).__module__ in ("itertools", "random"):
        return repr(value) if not isinstance(value, random.Random) else value.getstate()
    return id(value), _seen(vars(value), depth - 1) if hasattr(value, "__dict__") and not callable(value) else None
