"""Crossing: what goes over the wire at a cut between two parties, as the attackers on both sides see it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from modelkeep.data import Data
from modelkeep.errors import InputError, SliceError, bad_parameter, listed
from modelkeep.model import Model
from modelkeep.slices import Cut, Slice


@dataclass(frozen=True, eq=False)
class Crossing:
    """A cut at which each side has its own parameters: all tensors of it cross, those around the place too."""

    at: Slice

    @classmethod
    def of(cls, model: Model, name: str) -> Crossing:
        """The cut of `model` after the place `name`, refused where one half would need the other's parameters."""
        at = model.slice(name)
        if not at.traced:
            raise SliceError(
                f"The model cannot be split between parties at '{name}': torch.fx cannot follow it, so the second half "
                "would need the parameters of the first. Write its forward without branches that look at the data."
            )
        shared = at.parameters_h.keys() & at.parameters_g.keys()
        if shared:
            raise SliceError(f"At '{name}' both sides would need {listed(sorted(shared))}. Cut at another place.")
        return cls(at)

    def tensors(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """What the party before the cut sends for inputs `x: (n, ...)`, with gradients to `x`."""
        return _tensors(self.at.h(x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """All of it side by side: `(n, numbers that cross)`."""
        return _flat(self.tensors(x))

    def shapes(self, x: torch.Tensor) -> tuple[tuple[int, ...], ...]:
        """The shape of each tensor that crosses for one input."""
        with torch.no_grad():
            return tuple(tuple(tensor.shape[1:]) for tensor in self.tensors(x[:1]))

    def gradients(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """What the party behind the cut sends back: dL/dz of each example's cross-entropy, `(n, numbers)`."""
        with torch.enable_grad():
            cut = self.at.h(x)
            sent = tuple(tensor.detach().requires_grad_() for tensor in _tensors(cut))
            loss = torch.nn.functional.cross_entropy(self.at.g(_refilled(cut, sent)), y, reduction="sum")
            found = torch.autograd.grad(loss, sent, allow_unused=True)
        zeros = (torch.zeros_like(tensor) for tensor in sent)
        return _flat(tuple(zero if g is None else g for g, zero in zip(found, zeros, strict=True)))


def in_batches(x: torch.Tensor, *others: torch.Tensor, size: int = 256) -> list[tuple[torch.Tensor, ...]]:
    """The rows of all tensors in batches that fit into memory."""
    return list(zip(*(torch.split(each, size) for each in (x, *others)), strict=True))


def known_and_attacked(model: Model, data: Data, count: int, known: int, seed: int) -> tuple[Data, Data]:
    """Disjoint random parts of `data`: what an attacker has of the same kind, and what he is after.

    At most half of the data is attacked, so that there is always something of the same kind.
    """
    if count < 2:
        raise bad_parameter("an attack at a cut", "count", "at least 2 examples to attack", count)
    model.require_fit(data)
    if len(data) < 4:
        raise InputError(f"An attack at a cut needs at least 4 examples, half of them to learn from. Got {len(data)}.")
    model.logits(data.x[:256])  # refuses NaN, wrong shapes and damaged weights with a sentence
    shuffled = data.sample(len(data), seed)
    count = min(count, len(data) // 2)
    rest = range(count, min(len(data), count + known))
    return shuffled.take(list(rest)), shuffled.first(count)


def _tensors(cut: Cut) -> tuple[torch.Tensor, ...]:
    """The floating tensors of a cut that have a row per example; sizes and indices tell nothing of the inputs."""
    found = tuple(t for t in (cut.value, *cut.carried) if isinstance(t, torch.Tensor) and t.is_floating_point())
    rows = {len(tensor) if tensor.ndim else 0 for tensor in found}
    if len(rows) != 1:
        raise SliceError("What crosses this cut does not have one row per example, so no example can be attacked.")
    return found


def _refilled(cut: Cut, sent: tuple[torch.Tensor, ...]) -> Cut:
    """The cut with `sent` in place of its floating tensors."""
    ahead = iter(sent)
    value = next(ahead) if cut.value.is_floating_point() else cut.value
    kept = (next(ahead) if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in cut.carried)
    return Cut(value, tuple(kept))


def _flat(tensors: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return torch.cat([tensor.flatten(1) for tensor in tensors], dim=1)
