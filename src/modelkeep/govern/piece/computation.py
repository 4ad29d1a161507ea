"""Computation: what one party computes in one pass, forward and backward, micro-batch by micro-batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, cast

import torch
from torch.nn.functional import cross_entropy

from modelkeep.core.errors import GovernError, WireError
from modelkeep.core.model import Model
from modelkeep.govern.passes import Pass
from modelkeep.govern.piece.held_pieces import HeldPieces
from modelkeep.govern.piece.payload import Payload, require_fit
from modelkeep.training.batches import part_seed, parts_of
from modelkeep.training.schedules import Step

_READ_OF_DUE = 4  # times the bytes that are due: another type or twice the tensors are read, and then refused by name


@dataclass(frozen=True)
class Stage:
    """What one party computes without a message in between: its adjacent pieces, perhaps the inputs or the outputs."""

    holder: str
    pieces: tuple[int, ...]
    source: bool = False
    sink: bool = False


def make_route(holders: Sequence[str], source: str, sink: str) -> tuple[Stage, ...]:
    """The stages of a pass through the pieces of the `holders`, in order.

    >>> [stage.holder for stage in make_route(("alice", "bob"), "alice", "bob")]
    ['alice', 'bob']
    >>> [stage.holder for stage in make_route(("alice", "bob", "alice"), "alice", "alice")]  # U-shaped
    ['alice', 'bob', 'alice']
    >>> [stage.holder for stage in make_route(("bob",), "alice", "carol")]
    ['alice', 'bob', 'carol']
    """
    start, end = -1, len(holders)
    places = [(source, start), *((holder, piece) for piece, holder in enumerate(holders)), (sink, end)]
    route = []
    for holder, group in groupby(places, key=lambda place: place[0]):
        numbers = [number for _, number in group]
        pieces = tuple(number for number in numbers if start < number < end)
        route.append(Stage(holder, pieces, start in numbers, end in numbers))
    return tuple(route)


class Computation:
    """One pass at one party. `x` and `y` are what it brings where it is the source or the sink."""

    def __init__(
        self,
        of: Pass,
        route: Sequence[Stage],
        pieces: HeldPieces,
        x: torch.Tensor | None,
        y: torch.Tensor | None,
    ) -> None:
        self.of, self.route, self.pieces = of, route, pieces
        self.training = of.purpose == "train"
        self.own = [number for number, stage in enumerate(route) if stage.holder == pieces.party]
        self.metrics: dict[str, float] = {}
        self.answers: dict[int, torch.Tensor] = {}
        index = self._index()
        self._rows = parts_of(index, of.parts)
        self._sizes = [rows.shape[0] for rows in self._rows]
        self._x = () if x is None else parts_of(self._batch(x, index), of.parts)
        self._y = y
        self.parts = len(self._rows)
        # (stage, part) -> what went in and what came out, until its gradients have come.
        self._open: dict[tuple[int, int], tuple[list[torch.Tensor], list[torch.Tensor]]] = {}
        self._left = {(stage, part) for stage in self.own for part in range(self.parts)}
        pieces.forget_gradients()

    @property
    def done(self) -> bool:
        """Whether this party has computed all that it has to."""
        return not self._left

    @property
    def begins(self) -> bool:
        """Whether the first stage is this party's."""
        return 0 in self.own

    def rows(self, part: int) -> torch.Tensor:
        """Which examples of the data the micro-batch has."""
        return self._rows[part]

    def is_last(self, number: int, part: int) -> bool:
        """Whether nothing is left to compute here but this."""
        return self._left == {(number, part)}

    def due(self, peer: str, what: str, number: Any, part: Any) -> bool:
        """Whether these activations or gradients are still to come from this party: each comes once."""
        if type(number) is not int or type(part) is not int or number not in self.own:
            return False
        beside = number - 1 if what == "activations" else number + 1
        if beside not in range(len(self.route)) or self.route[beside].holder != peer:
            return False
        if what == "gradients":
            return (number, part) in self._open
        return (number, part) in self._left and (number, part) not in self._open

    def forward(self, number: int, part: int, payload: Payload | None = None) -> Payload | None:
        """Through the stage: what goes on to the next one; at the end of a training pass, what goes back."""
        stage = self.route[number]
        with torch.set_grad_enabled(self.training):
            entered, values = self._enter(stage, part, payload)
            seeded = self._seed(part, payload)
            values = self.pieces.run(stage.pieces, values, training=self.training)
            if stage.sink:
                return self._conclude(number, part, entered, values[0])
            left = [value for value in values if isinstance(value, torch.Tensor)]
        wants = tuple(tensor.requires_grad for tensor in left)
        if any(wants):
            self._open[number, part] = entered, [t for t in left if t.requires_grad]
        else:
            self._left.discard((number, part))
        moved = torch.default_generator.get_state()
        return Payload(
            tuple(v.detach() if isinstance(v, torch.Tensor) else v for v in values),
            wants,
            None if torch.equal(moved, seeded) else moved,
        )

    def largest(self, what: str, number: int, part: int) -> int:
        """How many bytes are read of what is due: more than can fit, so that what does not is named by its shape."""
        return _READ_OF_DUE * self._expected_bytes(what, number, part)

    def _expected_bytes(self, what: str, number: int, part: int) -> int:
        """The bytes of what is due; a state of the random generator may be among it."""
        state = torch.default_generator.get_state().nbytes
        if what == "activations":
            first = self.route[number].pieces[:1] or (len(self.pieces.agreement.holders),)
            specs = self.pieces.expected[self.training][first[0]]
            return state + sum(spec.bytes(self._sizes[part]) for spec in specs)
        _, left = self._open[number, part]
        return state + sum(tensor.nbytes for tensor in left)

    def require_fit(self, what: str, number: int, part: int, payload: Payload, where: str) -> None:
        """Refuse other numbers, types or shapes than the stage can get."""
        if what == "activations":
            first = self.route[number].pieces[:1] or (len(self.pieces.agreement.holders),)
            require_fit(payload, self.pieces.expected[self.training][first[0]], self._sizes[part], where)
            return
        _, left = self._open[number, part]
        if len(payload.values) != len(left):
            raise WireError(f"{where} should be {len(left)} gradients. Got {len(payload.values)}.")
        for tensor, g in zip(left, payload.values, strict=True):
            fits = isinstance(g, torch.Tensor) and (g.shape, g.dtype) == (tensor.shape, tensor.dtype)
            if g is not None and not fits:
                raise WireError(f"{where} hold a gradient that is not of the shape and type of what was sent.")

    def backward(self, number: int, part: int, payload: Payload) -> Payload | None:
        """Back through the stage with the gradients that came: those that go on to the stage before."""
        entered, left = self._open.pop((number, part))
        pairs = [(t, g) for t, g in zip(left, payload.values, strict=True) if g is not None]
        if pairs:
            torch.autograd.backward([t for t, _ in pairs], [g.to(t.device) for t, g in pairs])
        self._left.discard((number, part))
        return _gradients(entered)

    def _index(self) -> torch.Tensor:
        if self.training:
            return self.pieces.batches.index(self.of.step)
        return torch.arange(self.of.first, self.of.first + self.of.rows)

    def _batch(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        """The inputs of the pass, changed as the recipe says."""
        pieces = self.pieces
        chosen = x.index_select(0, index).to(pieces.device, pieces.dtype)
        if self.training and pieces.agreement.recipe.augmentation is not None:
            return pieces.batches.augment(chosen, self.of.step, pieces.bounds)
        return chosen

    def _enter(self, stage: Stage, part: int, payload: Payload | None) -> tuple[list[torch.Tensor], tuple[Any, ...]]:
        """What goes into the stage, and those of its tensors for which gradients go back."""
        if stage.source:
            return [], (self._x[part],)
        assert payload is not None
        wants = iter(payload.wants)
        values = []
        entered = []
        for value in payload.values:
            if isinstance(value, torch.Tensor):
                value = value.to(self.pieces.device)
                if self.training and next(wants):
                    entered.append(value.requires_grad_())
            values.append(value)
        return entered, tuple(values)

    def _seed(self, part: int, payload: Payload | None) -> torch.Tensor:
        """Let dropout draw what it would in one process; the generator's state before anything was drawn here."""
        torch.default_generator.manual_seed(part_seed(self.pieces.seeds["modules"], self.of.step, part))
        fresh = torch.default_generator.get_state()
        if payload is not None and payload.random is not None:
            torch.default_generator.set_state(payload.random)
        return fresh

    def _conclude(self, number: int, part: int, entered: list[torch.Tensor], logits: torch.Tensor) -> Payload | None:
        """At the end of the route: the answers, their score, or the loss and its gradients."""
        self._left.discard((number, part))
        if self.of.purpose == "infer":
            self.answers[part] = logits
            return None
        assert self._y is not None
        rows = self._rows[part]
        y = self._y.index_select(0, rows).to(logits.device)
        if self.of.purpose == "evaluate":
            self._add("loss", cross_entropy(logits, y, reduction="sum").item())
            self._add("correct", (logits.argmax(1) == y).sum().item())
            return None
        pieces = self.pieces
        size = self._sizes[part]
        share = size / self.of.rows if size < self.of.rows else 1.0
        generator = torch.Generator(logits.device)
        generator.manual_seed(part_seed(pieces.seeds["objective"], self.of.step, part))
        step = Step(self.of.step, pieces.total, pieces.batches.per_epoch, rows, generator)
        answered = _Answered(logits, pieces)
        values = pieces.differentiate(cast(Model, answered), answered.inputs, y, step, share)
        for name, value in values.items():
            self._add(name, share * value.item())
        return _gradients(entered)

    def _add(self, name: str, value: float) -> None:
        self.metrics[name] = self.metrics.get(name, 0.0) + value


class _Answered:
    """A model that has been asked already: what an objective sees where the network is spread over many parties."""

    def __init__(self, logits: torch.Tensor, pieces: HeldPieces) -> None:
        self._logits = logits
        self.inputs = logits.new_empty((len(logits), 0))
        self.device, self.dtype = logits.device, logits.dtype
        self.classes, self.bounds = pieces.classes, pieces.bounds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x is not self.inputs:
            raise self._alone("asks the network about other inputs than the batch")
        return self._logits

    def __getattr__(self, name: str) -> Any:
        raise self._alone(f"needs the model's '{name}'")

    def _alone(self, needs: str) -> GovernError:
        return GovernError(
            f"This objective {needs}, as adversarial training does. The party that has the labels does not have the "
            "whole network, so it does not split. Take cross_entropy, or another objective of the answers and the "
            "labels."
        )


def _gradients(entered: Sequence[torch.Tensor]) -> Payload | None:
    """The gradients of what came in; None where it had no influence, which an optimizer tells apart from zeros."""
    if not entered:
        return None
    return Payload(tuple(t.grad for t in entered))
