"""Exactness: the pieces of a network are compared with the network on a probe, run as parties run them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import nn

from modelkeep.core.errors import SliceError
from modelkeep.core.slices.halves import first_tensor


class Runnable(Protocol):
    """What is needed of a piece to run it forward and backward."""

    @property
    def parameters(self) -> dict[str, nn.Parameter]: ...

    def __call__(self, values: Sequence[Any], *, training: bool) -> tuple[Any, ...]: ...


Run = dict[str, torch.Tensor | None]
_Slopes = list[torch.Tensor | None]


def whole_run(module: nn.Module, before: nn.Module, probe: torch.Tensor) -> Run:
    """The network's output and the gradients of its parameters, by name, in the mode in which it is."""
    torch.manual_seed(0)
    mode = "train" if module.training else "eval"
    try:
        with torch.enable_grad():
            output = first_tensor(module(before(probe.clone())))
            gradients = _gradients([output], [_slope(output)], dict(module.named_parameters()))
    except (RuntimeError, ValueError) as error:
        raise SliceError(
            f"The network itself does not run forward and backward on the probe in {mode} mode. Is the probe made of "
            f"at least two of its inputs? torch says: {error}"
        ) from error
    return {"the output": output.detach(), **gradients}


def pieces_run(
    pieces: Sequence[Runnable], probe: torch.Tensor, training: bool, *, over_a_wire: bool
) -> tuple[Run, list[_Slopes]]:
    """The same of its pieces, each of which gets nothing of the others but copies of what crosses.

    Also the gradients of what each piece gave; `over_a_wire` they reach it row after row without gaps.
    """
    torch.manual_seed(0)
    passes: list[tuple[list[Any], tuple[Any, ...]]] = []
    values: tuple[Any, ...] = (probe.clone(),)
    with torch.enable_grad():
        for piece in pieces:
            taken = [_received(value) for value in values] if passes else list(values)
            values = piece(taken, training=training)
            passes.append((taken, values))
    run: Run = {"the output": values[0].detach()}
    slopes: list[_Slopes] = [[_slope(values[0])]]
    for piece, (taken, given) in zip(reversed(pieces), reversed(passes), strict=True):
        entered = {str(i): t for i, t in enumerate(taken) if isinstance(t, torch.Tensor) and t.requires_grad}
        arrived = [s.contiguous() if over_a_wire and s is not None else s for s in slopes[0]]
        found = _gradients(given, arrived, {**piece.parameters, **entered})
        run |= {name: found[name] for name in piece.parameters if name in found}
        slopes.insert(0, [found.get(str(i)) for i in range(len(taken))])
    return run, slopes[1:]


def require_equal(wanted: Run, got: Run, mode: str) -> None:
    """Refuse pieces whose run is not the network's own, bit for bit."""
    for name, value in wanted.items():
        other = got.get(name)
        same = value is other if value is None or other is None else torch.equal(value, other)
        if not same:
            what = name if name.startswith("the ") else f"the gradient of '{name}'"
            raise SliceError(
                f"In {mode} mode the pieces do not give the network's own result again on a probe: {what} differs. "
                "Does the network draw random numbers of its own, give NaN, keep count of its passes, or overwrite "
                "tensors across a cut? Cut at other places."
            )


def _received(value: Any) -> Any:
    """A tensor as it arrives over a wire: dense, a leaf of its own."""
    if not isinstance(value, torch.Tensor):
        return value
    copy = value.detach().clone(memory_format=torch.contiguous_format)
    return copy.requires_grad_(copy.is_floating_point())


def _slope(output: torch.Tensor) -> torch.Tensor:
    """A gradient of the output in which no two numbers are alike, so that sums in another order round differently."""
    return torch.arange(1, output.numel() + 1, device=output.device).sin().to(output.dtype).view_as(output)


def _gradients(outputs: Sequence[Any], slopes: Sequence[torch.Tensor | None], wanted: dict[str, Any]) -> Run:
    ends = [
        (output, slope)
        for output, slope in zip(outputs, slopes, strict=True)
        if slope is not None and isinstance(output, torch.Tensor) and output.requires_grad
    ]
    wanted = {name: tensor for name, tensor in wanted.items() if tensor.requires_grad}
    if not ends or not wanted:
        return dict.fromkeys(wanted)
    tensors, gradients = zip(*ends, strict=True)
    return dict(
        zip(wanted, torch.autograd.grad(tensors, list(wanted.values()), gradients, allow_unused=True), strict=True)
    )
