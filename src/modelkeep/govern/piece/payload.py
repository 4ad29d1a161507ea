"""Payload: what crosses from one stage to the next in one micro-batch, and the checks of what comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, prod
from typing import Any

import torch

from modelkeep.core.errors import WireError
from modelkeep.govern.wire.message import Message

_WORDS = 624  # of the Mersenne Twister behind torch's generator
_LEFT, _NEXT = 2, 4  # where its state says how many of them are left and which is next, in words of 32 bits


@dataclass(frozen=True, eq=False)
class Payload:
    """The `values` of a cut (tensors, and numbers where the program carries sizes around the cut).

    `wants` says of each tensor whether a gradient is to come back for it. `random` is the state of the generator
    that dropout draws from, where a piece has drawn from it: so the next piece draws what it would in one process.
    """

    values: tuple[Any, ...]
    wants: tuple[bool, ...] = ()
    random: torch.Tensor | None = None

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """The tensors among the values."""
        return tuple(value for value in self.values if isinstance(value, torch.Tensor))

    def message(self, kind: str, header: dict[str, Any]) -> Message:
        """The message that carries it."""
        numbers = {str(i): value for i, value in enumerate(self.values) if not isinstance(value, torch.Tensor)}
        described = {**header, "numbers": numbers, "wants": list(self.wants), "random": self.random is not None}
        return Message(kind, described, self.tensors if self.random is None else (*self.tensors, self.random))

    @classmethod
    def read(cls, message: Message) -> Payload:
        """What came in a message."""
        try:
            tensors = list(message.tensors)
            random = tensors.pop() if message.header["random"] else None
            numbers: dict[str, Any] = message.header["numbers"]
            values = [
                numbers[str(i)] if str(i) in numbers else tensors.pop(0) for i in range(len(tensors) + len(numbers))
            ]
            wants = tuple(bool(want) for want in message.header["wants"])
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise WireError(f"The {message.kind} that came are not whole: {error!r}.") from error
        return cls(tuple(values), wants, random)

    def require_within(self, magnitude: float | None, where: str) -> None:
        """Refuse NaN and infinity, which would spoil every party's weights, and numbers beyond the agreed magnitude."""
        for tensor in self.tensors:
            if not tensor.is_floating_point() or not tensor.numel():
                continue
            # One pass over the memory, where `isfinite` takes three; NaN shows in both.
            least, most = (bound.item() for bound in torch.aminmax(tensor))
            if not (isfinite(least) and isfinite(most)):
                share = 1 - tensor.isfinite().float().mean().item()
                raise WireError(
                    f"{where} hold NaN or infinity ({share:.1%} of a tensor of shape {tuple(tensor.shape)}). "
                    "Nothing was updated. Lower the learning rate, and look at the inputs."
                )
            if magnitude is not None and max(-least, most) > magnitude:
                raise WireError(
                    f"{where} hold numbers up to {max(-least, most):.4g}; the agreement allows {magnitude:.4g} at most."
                )


@dataclass(frozen=True)
class Spec:
    """The type of one value that crosses and its size per axis: fixed, or a multiple of the number of examples.

    Of a number, which is a size that the program carries around the cut, it is the number itself.
    """

    kind: str
    fixed: tuple[float, ...] = ()
    per_example: tuple[float, ...] = ()

    def bytes(self, rows: int) -> int:
        """The bytes of such a tensor for `rows` examples; of a number none, since it is in the header."""
        dtype = getattr(torch, self.kind.removeprefix("torch."), None)
        if not isinstance(dtype, torch.dtype):
            return 0
        return int(prod(self.shape(rows))) * dtype.itemsize

    def shape(self, rows: int) -> tuple[float, ...]:
        """The shape, or the number, for `rows` examples."""
        return tuple(rows * factor + size for size, factor in zip(self.fixed, self.per_example, strict=True))


def specs(two: Sequence[Any], three: Sequence[Any]) -> tuple[Spec, ...]:
    """What crosses, learned from what crossed for two and for three examples."""
    found = []
    for value, other in zip(two, three, strict=True):
        sizes, others = _sizes(value), _sizes(other)
        factors = tuple(b - a for a, b in zip(sizes, others, strict=True))
        fixed = tuple(a - 2 * factor for a, factor in zip(sizes, factors, strict=True))
        found.append(Spec(_kind(value), fixed, factors))
    return tuple(found)


def _kind(value: Any) -> str:
    return str(value.dtype) if isinstance(value, torch.Tensor) else type(value).__name__


def _sizes(value: Any) -> tuple[float, ...]:
    if isinstance(value, torch.Tensor):
        return tuple(value.shape)
    return (value,) if isinstance(value, int | float) else ()


def require_fit(payload: Payload, expected: Sequence[Spec], rows: int, where: str) -> None:
    """Refuse values of another number, type or shape than the network can give there."""
    got = [_kind(value) for value in payload.values]
    if got != [spec.kind for spec in expected]:
        raise WireError(f"{where} should be {[spec.kind for spec in expected]}. Got {got}.")
    for value, spec in zip(payload.values, expected, strict=True):
        if _sizes(value) != spec.shape(rows):
            raise WireError(f"{where} should have shape {spec.shape(rows)} for {rows} examples. Got {_sizes(value)}.")
    if len(payload.wants) != len(payload.tensors):
        raise WireError(f"{where} do not say of each tensor whether a gradient is to come back.")
    if any(
        want and not tensor.is_floating_point() for want, tensor in zip(payload.wants, payload.tensors, strict=True)
    ):
        raise WireError(f"{where} ask for the gradient of whole numbers.")
    if payload.random is not None:
        try:
            torch.Generator().set_state(payload.random)
        except (RuntimeError, TypeError) as error:
            raise WireError(f"{where} bring a state of the random generator that is none: {error}") from error
        _require_consistent(payload.random, where)


def _require_consistent(state: torch.Tensor, where: str) -> None:
    """Refuse a state in which more words are left than lie behind the next one.

    Torch takes it, and then draws from the memory behind the generator: its masks would tell others what lies there.
    A Mersenne Twister has 624 words; a fresh one has drawn none, and makes new ones before the first.
    """
    words = state.view(torch.int32)
    left, following = int(words[_LEFT]), int(words[_NEXT])
    if left + following != _WORDS + 1 and (left, following) != (1, 0):
        raise WireError(
            f"{where} bring a state of the random generator that is none: {left} of its {_WORDS} words are left, "
            f"and the next is number {following}."
        )
