"""Pieces: a network cut at several places into programs of their own, each for another party to hold.

A piece has only its own modules and parameters. What one hands to the next is everything that was computed before
the cut and is used after it, however far after. Nothing is reordered, so the pieces one after another compute the
network's output bit for bit, in train and in eval mode, and their backward passes its gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from modelkeep.core.errors import SliceError
from modelkeep.core.slices.attention import one_path
from modelkeep.core.slices.exactness import pieces_run, require_equal, whole_run
from modelkeep.core.slices.halves import Place, first_tensor
from modelkeep.core.slices.programs import Program, programs_of


@dataclass(frozen=True, eq=False, repr=False)
class Piece:
    """One piece of a network, from the cut before it to `place` (None for the last).

    `parameters` and `buffers` are the network's own tensors, by their names there.
    """

    place: Place | None
    parameters: dict[str, nn.Parameter]
    buffers: dict[str, torch.Tensor]
    _before: nn.Module | None
    _programs: dict[bool, Program]
    _path: Callable[[], Any]

    def takes(self, training: bool) -> tuple[str, ...]:
        """The names of what it takes; the first piece takes the input."""
        enters = self._programs[training].enters
        return ("input",) if enters is None else enters.names

    def gives(self, training: bool) -> tuple[str, ...]:
        """The names of what it gives; the last piece gives the logits."""
        leaves = self._programs[training].leaves
        return ("logits",) if leaves is None else leaves.names

    def train(self, mode: bool) -> None:
        """Set the mode of its modules."""
        for program in self._programs.values():
            program.graph.train(mode)

    def __call__(self, values: Sequence[Any], *, training: bool) -> tuple[Any, ...]:
        """Run it on what it takes, which is left as it is. `training` chooses the program, `train` the modes."""
        program = self._programs[training]
        names = self.takes(training)
        if len(values) != len(names):
            raise SliceError(f"This piece takes {len(names)} values ({', '.join(names)}). Got {len(values)}.")
        with self._path():
            values = values if self._before is None else [self._before(*values)]
            kept = [value.clone() if o else value for value, o in zip(values, program.overwrites, strict=True)]
            given = program.graph.forward(*(kept if program.enters is None else program.enters.unpack(kept)))
            return (first_tensor(given),) if program.leaves is None else program.leaves.pack(given)

    def __repr__(self) -> str:
        end = "the end" if self.place is None else str(self.place)
        return f"Piece(until {end}, {len(self.parameters)} parameters, gives {', '.join(self.gives(False))})"


def pieces(
    module: nn.Module, cuts: Sequence[Place], probe: torch.Tensor, *, before: nn.Module | None = None
) -> tuple[Piece, ...]:
    """Cut `module` right after each place of `cuts`, which are in the order of the run.

    Args:
        module: The network, which is left as it is. The pieces share its tensors, each those that it uses; what no
            pass uses goes to the last.
        cuts: Where to cut; there is one piece more than there are cuts.
        probe: At least two inputs. The pieces are run on them, and refused where they are not exactly the network.
        before: What happens to an input first, as a part of the first piece.

    Raises:
        SliceError: Where torch.fx cannot follow the network, a place is unknown or out of order, two pieces would
            share a tensor, or the pieces do not give the network's own output and gradients.

    >>> network = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> alice, bob = pieces(network, [Place("1")], torch.zeros(2, 4))
    >>> list(alice.parameters), list(bob.parameters)
    (['0.weight', '0.bias'], ['2.weight', '2.bias'])
    >>> (logits,) = bob(alice([torch.ones(1, 4)], training=False), training=False)
    >>> torch.equal(logits, network(torch.ones(1, 4)))
    True
    """
    before = before if before is not None else nn.Identity()
    path = one_path(module)
    with _left_as_it_is(module, before, probe) as started, path():
        wanted = {}
        programs = {}
        for training in (True, False):
            wanted[training] = {**whole_run(started(training), before, probe), **_state(module)}
            programs[training] = programs_of(started(training), cuts, before(probe))
        parameters = _owned("parameter", dict(module.named_parameters()), programs, nn.Module.parameters)
        buffers = _owned("buffer", dict(module.named_buffers()), programs, nn.Module.buffers)
        found = tuple(
            Piece(
                place=place,
                parameters=parameters[i],
                buffers=buffers[i],
                _before=before if i == 0 else None,
                _programs={training: programs[training][i] for training in programs},
                _path=path,
            )
            for i, place in enumerate([*cuts, None])
        )
        for training in wanted:
            started(training)
            _, slopes = pieces_run(found, probe, training, over_a_wire=False)
            for piece, gradients in zip(found[:-1], slopes[:-1], strict=True):
                piece._programs[training] = piece._programs[training].with_gradients(gradients)
            started(training)
            got, _ = pieces_run(found, probe, training, over_a_wire=True)
            require_equal(wanted[training], {**got, **_state(module)}, "train" if training else "eval")
    return found


def _state(module: nn.Module) -> dict[str, torch.Tensor]:
    """The buffers that a pass may have changed."""
    return {f"the buffer '{name}'": buffer.clone() for name, buffer in module.named_buffers()}


@contextmanager
def _left_as_it_is(module: nn.Module, before: nn.Module, probe: torch.Tensor) -> Iterator[Callable[[bool], nn.Module]]:
    """Gives a function that puts the network at its start in a mode; afterwards everything is what it was."""
    modes = [(part, part.training) for part in module.modules()]
    buffers = [(buffer, buffer.clone()) for whole in (module, before) for buffer in whole.buffers()]
    attributes = set(vars(module))

    def started(training: bool) -> nn.Module:
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
        return module.train(training)

    try:
        with torch.random.fork_rng(devices=[probe.device] if probe.is_cuda else []):
            yield started
    finally:
        started(False)
        for part, mode in modes:
            part.training = mode
        for name in set(vars(module)) - attributes:  # constants that torch.fx hangs on the network it traces
            delattr(module, name)


def _owned(
    kind: str,
    named: dict[str, Any],
    programs: dict[bool, list[Program]],
    tensors: Callable[[nn.Module], Iterator[torch.Tensor]],
) -> list[dict[str, Any]]:
    """The network's tensors by the piece that uses them in either mode; each is used by one piece only."""
    last = len(programs[True]) - 1
    owners: dict[int, set[int]] = {}
    for mode in programs.values():
        for i, program in enumerate(mode):
            for tensor in tensors(program.graph):
                owners.setdefault(id(tensor), set()).add(i)
    found: list[dict[str, Any]] = [{} for _ in range(last + 1)]
    for name, tensor in named.items():
        used_by = sorted(owners.get(id(tensor), {last}))
        if len(used_by) > 1:
            raise SliceError(
                f"The {kind} '{name}' is used by the pieces {' and '.join(str(i + 1) for i in used_by)}, but each "
                "party must hold a part of its own. Cut where all that uses it is on one side."
            )
        found[used_by[0]][name] = tensor
    return found
