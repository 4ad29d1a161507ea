"""Recording: what a party that holds all but the missing piece sees cross the two cuts around it.

In governed split training (Martic2018, section 1) activations cross forward and gradients backward. An honest but
curious party can always write them down: that needs no consent, and leaves no trace.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from modelkeep.completion.part import Part
from modelkeep.core.data import Data
from modelkeep.core.errors import CheckpointError, InputError, bad_parameter
from modelkeep.core.fingerprint import fingerprint
from modelkeep.core.model import Model
from modelkeep.core.slices import Place
from modelkeep.core.slices.pieces import Piece
from modelkeep.training import Recipe
from modelkeep.training import checkpoint as files
from modelkeep.training.batches import Batches, derive_seed, part_seed
from modelkeep.training.checkpoint import Snapshot, Wording

Tensors = tuple[torch.Tensor | None, ...]
KINDS = ("inputs", "outputs", "output_gradients", "input_gradients")
WORDING = Wording("recording", "record", "Nothing was recorded. Make room or give another path, then record again.")


@dataclass(frozen=True, eq=False)
class RecordedPass:
    """What crossed in one pass of the examples `rows` of the data. What did not cross is an empty tuple.

    A cut may be several tensors wide (skip connections); a gradient is None where its tensor has none.
    """

    rows: torch.Tensor
    inputs: tuple[torch.Tensor, ...] = ()
    outputs: tuple[torch.Tensor, ...] = ()
    output_gradients: Tensors = ()
    input_gradients: Tensors = ()

    def __post_init__(self) -> None:
        for of, gradients in ((self.inputs, self.input_gradients), (self.outputs, self.output_gradients)):
            if gradients and [g.shape for g in gradients if g is not None] != [
                t.shape for t, g in zip(of, gradients, strict=False) if g is not None
            ]:
                raise InputError("A recorded gradient must have the shape of what it is the gradient of.")
        if not all(t.isfinite().all() for kind in KINDS for t in getattr(self, kind) if t is not None):
            raise InputError("A recording holds NaN or infinity, of which nothing can be learned. Record again.")


@dataclass(frozen=True, eq=False)
class Recording:
    """The `passes` through the piece that lies after the cut `start` (None: it is the first) and until `end`
    (None: it is the last), all in training or all in inference. `data` is the fingerprint of the inputs."""

    start: Place | None
    end: Place | None
    training: bool
    data: str
    passes: tuple[RecordedPass, ...]

    def __post_init__(self) -> None:
        if not self.passes:
            raise InputError("A recording needs at least one pass. Got none.")

    @property
    def cuts(self) -> tuple[Place, ...]:
        """Where to cut the network so that the piece is one by itself."""
        return tuple(place for place in (self.start, self.end) if place is not None)

    def piece(self, model: Model) -> Piece:
        """The piece of `model` that was recorded; it shares the model's tensors."""
        return model.pieces(self.cuts)[0 if self.start is None else 1]

    def save(self, path: str | Path) -> Path:
        """Write one safetensors file, whole or not at all."""
        tensors = {f"{i}/rows": passed.rows for i, passed in enumerate(self.passes)}
        for i, passed in enumerate(self.passes):
            for kind in KINDS:
                crossed: Tensors = getattr(passed, kind)
                tensors |= {f"{i}/{kind}/{j}": tensor for j, tensor in enumerate(crossed) if tensor is not None}
        values = {
            "widths": [[len(getattr(passed, kind)) for kind in KINDS] for passed in self.passes],
            "start": None if self.start is None else astuple(self.start),
            "end": None if self.end is None else astuple(self.end),
            "training": self.training,
            "data": self.data,
        }
        files.write(Path(path), Snapshot(tensors, values, {"kind": "recording"}).to_bytes(), WORDING)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """Read what `save` wrote; a damaged file, or one of another kind, is refused."""
        payload = files.read(Path(path), WORDING)
        if payload is None:
            raise CheckpointError(f"There is no recording at {path}.")
        found = Snapshot.from_bytes(payload, f"The recording {path}", WORDING)
        if found.identity != {"kind": "recording"}:
            raise CheckpointError(f"{path} is not a recording, but a checkpoint of {found.identity}.")
        passes = []
        for i, widths in enumerate(found.values["widths"]):
            crossed = {
                kind: tuple(found.tensors.get(f"{i}/{kind}/{j}") for j in range(width))
                for kind, width in zip(KINDS, widths, strict=True)
            }
            passes.append(RecordedPass(found.tensors[f"{i}/rows"], **crossed))  # type: ignore[arg-type]
        start, end = (
            None if place is None else Place(*place) for place in (found.values["start"], found.values["end"])
        )
        return cls(start, end, found.values["training"], found.values["data"], tuple(passes))


def cuts_around(model: Model, part: Part) -> tuple[Place | None, Place | None]:
    """The narrowest cuts before and after all that is missing; None where the network begins or ends there."""
    places = model.slices()
    owners = {name.rpartition(".")[0] for name in part.parameters(model.module)}
    owned = [i for i, place in enumerate(places) if place in owners]
    if not owned:
        raise InputError(f"'{part.name}' cannot be cut out of the network: no place of it computes just that part.")
    first, last = owned[0], owned[-1]
    only_named_again = all(places[last].startswith(f"{place}.") for place in places[last + 1 :])
    start = None if places[first - 1] == "input" else Place(places[first - 1])
    end = None if only_named_again else Place(places[last])
    if start is None and end is None:
        raise InputError(f"'{part.name}' spans the whole network, so there is no cut that anything could cross.")
    return start, end


def record(
    model: Model, part: Part, data: Data, *, passes: int, batch_size: int, seed: int = 0, training: bool
) -> Recording:
    """What crosses around `part` in `passes` passes of the trained model, here in one process.

    A pass gives the very numbers that a governed one with the same weights would (`govern.session.recorder`
    takes them down from a real one). The weights stay as they are. In training the holder of the last piece has the
    labels, so that its outputs do not cross; in inference the party that asks gets them.
    """
    if passes < 1:
        raise bad_parameter("record", "passes", "at least 1", passes)
    model.require_fit(data)
    start, end = cuts_around(model, part)
    own = copy.deepcopy(model)
    pieces = own.pieces([place for place in (start, end) if place is not None])
    place = 0 if start is None else 1
    before, piece, after = pieces[:place], pieces[place], pieces[place + 1 :]
    batches = Batches(len(data), Recipe(steps=passes, batch_size=batch_size), seed)
    found = []
    with torch.random.fork_rng(devices=[]):
        for one in pieces:
            one.train(training)
        for number in range(passes):
            rows = batches.index(number)
            x, y = data.x[rows].to(own.device, own.dtype), data.y[rows].to(own.device)
            torch.default_generator.manual_seed(part_seed(derive_seed(seed, "modules", 0), number, 0))
            found.append(_pass(before, piece, after, x, y, rows, training))
    return Recording(start, end, training, fingerprint({"x": data.x}), tuple(found))


def _pass(
    before: Sequence[Piece],
    piece: Piece,
    after: Sequence[Piece],
    x: torch.Tensor,
    y: torch.Tensor,
    rows: torch.Tensor,
    training: bool,
) -> RecordedPass:
    """One pass forward and, in training, backward; at each cut a new leaf, as at each party."""
    with torch.no_grad():
        entered = _run(before, (x,), training)
    with torch.set_grad_enabled(training):
        if before:
            entered = _leaves(entered)
        left = piece(entered, training=training)
        if training and not after:
            cross_entropy(left[0], y).backward()  # type: ignore[no-untyped-call]
            return RecordedPass(rows, _keep(entered), input_gradients=_slopes(entered))
        if not training:
            return RecordedPass(rows, _keep(entered), _keep(left))
        crossed = _leaves(left)
        cross_entropy(_run(after, crossed, training)[0], y).backward()  # type: ignore[no-untyped-call]
        if before:
            pairs = [(tensor, leaf.grad) for tensor, leaf in zip(left, crossed, strict=True) if leaf.grad is not None]
            torch.autograd.backward([t for t, _ in pairs], [g for _, g in pairs])
    return RecordedPass(rows, _keep(entered), _keep(crossed), _slopes(crossed), _slopes(entered) if before else ())


def _run(pieces: Sequence[Piece], values: tuple[torch.Tensor, ...], training: bool) -> tuple[torch.Tensor, ...]:
    for piece in pieces:
        values = piece(values, training=training)
    if not all(isinstance(value, torch.Tensor) for value in values):
        raise InputError("Sizes cross the cut, not only tensors: such a piece cannot be recorded. Cut elsewhere.")
    return values


def _leaves(values: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(value.detach().requires_grad_(value.is_floating_point()) for value in values)


def _keep(values: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(value.detach().clone() for value in values)


def _slopes(values: tuple[torch.Tensor, ...]) -> Tensors:
    return tuple(None if value.grad is None else value.grad.clone() for value in values)
