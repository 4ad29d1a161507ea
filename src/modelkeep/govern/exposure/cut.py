"""Exposed: a cut between two parties as the attackers on both sides see it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy

from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, SliceError, bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.slices import Place
from modelkeep.core.slices.pieces import Piece


@dataclass(frozen=True, eq=False)
class Exposed:
    """The two pieces of a model that is cut at one place; what one gives the other crosses, in eval mode.

    Attackers look at the floating tensors with a row per example; sizes and indices tell nothing of one example.
    """

    place: Place
    before: Piece
    after: Piece

    @classmethod
    def at(cls, model: Model, cut: str | Place) -> Exposed:
        """The cut of `model` after a place; refused where the two sides would share parameters."""
        place = Place(cut) if isinstance(cut, str) else cut
        before, after = model.pieces([place])
        return cls(place, before, after)

    def activations(self, x: torch.Tensor) -> torch.Tensor:
        """What crosses for inputs `x: (n, ...)`, side by side: `(n, numbers)`, with gradients to `x`."""
        return torch.cat([tensor.flatten(1) for tensor in self._tensors(x)], dim=1)

    def shapes(self, x: torch.Tensor) -> tuple[tuple[int, ...], ...]:
        """The shape of each tensor that crosses for one input."""
        with torch.no_grad():
            return tuple(tuple(tensor.shape[1:]) for tensor in self._tensors(x[:2]))

    def gradients(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """What crosses back: the gradient of each example's cross-entropy to its activations, `(n, numbers)`."""
        with torch.no_grad():
            values = self.before([x], training=False)
        with torch.enable_grad():
            received = [v.detach().requires_grad_() if _is_floating(v) else v for v in values]
            (logits,) = self.after(received, training=False)
            sent = [v for v in received if _is_floating(v)]
            found = torch.autograd.grad(cross_entropy(logits, y, reduction="sum"), sent, materialize_grads=True)
        return torch.cat([gradient.flatten(1) for gradient in found], dim=1)

    def _tensors(self, x: torch.Tensor) -> list[torch.Tensor]:
        found = [value for value in self.before([x], training=False) if _is_floating(value)]
        if not found or any(tensor.ndim == 0 or len(tensor) != len(x) for tensor in found):
            raise SliceError(f"What crosses at '{self.place}' has no row per example, so no example can be attacked.")
        return found


def in_batches(*tensors: torch.Tensor, size: int = 256) -> list[tuple[torch.Tensor, ...]]:
    """The rows of all tensors in batches that fit into memory."""
    return list(zip(*(torch.split(each, size) for each in tensors), strict=True))


def split_known(model: Model, data: Data, count: int, known: int, seed: int) -> tuple[Data, Data]:
    """Disjoint random parts of `data`: `known` examples of the same kind that an attacker has, and those he is after.

    Where he has any, at most half of the data is attacked, so that there are some.
    """
    if count < 2:
        raise bad_parameter("an attack at a cut", "count", "at least 2 examples to attack", count)
    model.require_fit(data)
    if len(data) < 4:
        raise InputError(f"An attack at a cut needs at least 4 examples, half of them to learn from. Got {len(data)}.")
    shuffled = data.sample(len(data), seed)
    count = min(count, len(data) // 2 if known else len(data))
    return shuffled.take(range(count, min(len(data), count + known))), shuffled.first(count)


def _is_floating(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
