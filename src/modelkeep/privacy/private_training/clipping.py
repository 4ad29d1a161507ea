"""Clipping: the sum of per-example gradients, each cut to a norm, from one backward pass where the layers allow it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy
from torch.nn.modules.batchnorm import _BatchNorm

from modelkeep.core.errors import ModelError
from modelkeep.core.model import Model
from modelkeep.privacy.private_training.layers import Call, PerExample, rule_for

_TOLERANCE = 1e-3
"""How far the layers' gradient may be from autograd's, relative to its norm, before it counts as another one.

Rounding reaches 1e-6 on the networks of the tests; a weight that is used outside of its layer changes it by tenths.
"""
_AT_ONCE = 16
"""Examples whose whole gradients are in memory at once where the layers' structure does not help."""


class Clipping:
    """The clipped sum of a network's per-example gradients of the cross-entropy.

    Dense, convolution, embedding, layer norm and group norm layers cost one backward pass: their structure gives the
    norms, and then the sum. A network with other trained layers, or one that uses a weight outside of its layer, gets
    the gradient of each example, by `torch.func.vmap` or in a loop. The first batch decides: it is compared with
    autograd's gradient.
    """

    def __init__(self) -> None:
        self._structured: bool | None = None

    def add_up(self, model: Model, x: torch.Tensor, y: torch.Tensor, clip: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Leave the clipped sum in `.grad`; the losses `(n,)` and the norms `(n,)` before clipping."""
        if self._structured is None:
            refuse_mixing(model.module)
            self._structured = _has_rules(model.module) and _agrees(model, x, y)
        if self._structured:
            return _by_structure(model, x, y, clip)
        return _one_by_one(model, x, y, clip)


def refuse_mixing(module: nn.Module) -> None:
    """Refuse layers that mix the examples of a batch: a clipped gradient would not bound what one example can do."""
    for name, part in module.named_modules():
        if isinstance(part, _BatchNorm) and part.training:
            raise ModelError(
                f"'{name}' is a batch norm: it mixes the examples of a batch, and then no gradient belongs to one "
                "example. Use nn.GroupNorm in its place, or leave it out of Recipe(trainable=…)."
            )


def _has_rules(module: nn.Module) -> bool:
    """Whether every trained parameter belongs to a layer with a rule."""
    return all(
        rule_for(layer) is not None
        for layer in module.modules()
        if any(parameter.requires_grad for parameter in layer.parameters(recurse=False))
    )


def _agrees(model: Model, x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether the layers' rules give autograd's gradient of the summed loss, in the same pass."""
    trained = [parameter for parameter in model.module.parameters() if parameter.requires_grad]
    with _recorded(model.module) as calls:
        losses = cross_entropy(model.forward(x), y, reduction="none")
    outputs = [output for *_, output in calls]
    if any(output._version != version for _, _, version, output in calls) or not outputs:
        return False
    _refuse_dependence(losses, outputs)
    truth = torch.autograd.grad(losses.sum(), [*outputs, *trained], allow_unused=True)
    slopes, gradients = truth[: len(outputs)], truth[len(outputs) :]
    found = _weighted(calls, slopes, torch.ones_like(losses))
    wanted = {p: g for p, g in zip(trained, gradients, strict=True) if g is not None}
    size = torch.stack([g.norm() for g in wanted.values()]).norm()
    apart = [(found[p] if p in found else torch.zeros_like(g)) - g for p, g in wanted.items()]
    return bool(torch.stack([each.norm() for each in apart]).norm() <= _TOLERANCE * size)


def _refuse_dependence(losses: torch.Tensor, outputs: list[torch.Tensor]) -> None:
    """Refuse a network in which the loss of one example depends on another one's values."""
    alone = torch.autograd.grad(losses[0], outputs, retain_graph=True, allow_unused=True)
    if any(slope is not None and bool(slope[1:].any()) for slope in alone):
        raise ModelError(
            "The network mixes the examples of a batch: the loss of one depends on the others. No gradient belongs "
            "to one example, and none can be made private. Is something averaged over the batch?"
        )


def _by_structure(model: Model, x: torch.Tensor, y: torch.Tensor, clip: float) -> tuple[torch.Tensor, torch.Tensor]:
    with _recorded(model.module) as calls:
        losses = cross_entropy(model.forward(x), y, reduction="none")
    # Only the layers' outputs are asked for: autograd then computes no gradient of a weight.
    slopes = torch.autograd.grad(losses.sum(), [output for *_, output in calls], allow_unused=True)
    with torch.no_grad():
        parts = _parts(calls, slopes)
        norms = torch.stack([part.squares for part in parts]).sum(dim=0).sqrt()
    if not torch.isfinite(norms).all():  # a weight of 0 would not remove what is not finite from a sum
        return _one_by_one(model, x, y, clip)
    with torch.no_grad():
        weights = scale(norms, clip)
        for part in parts:
            for parameter, gradient in part.weigh(weights):
                parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
    return losses.detach(), norms


def scale(norms: torch.Tensor, clip: float) -> torch.Tensor:
    """The factors that cut gradients to a norm of at most `clip`; a gradient that is not finite counts as zero."""
    factors = (clip / norms.clamp_min(1e-12)).clamp_max(1.0)
    return torch.where(torch.isfinite(norms), factors, 0.0)


Recorded = list[tuple[nn.Module, torch.Tensor, int, torch.Tensor]]
"""Layer, input, the version of the output when it was made, output."""


@contextmanager
def _recorded(module: nn.Module) -> Iterator[Recorded]:
    """Record what enters and leaves each trained layer during a pass, in which no layer writes in place."""
    calls: Recorded = []

    def record(layer: nn.Module, arguments: tuple[Any, ...], output: torch.Tensor) -> None:
        calls.append((layer, arguments[0].detach(), output._version, output))

    trained = [layer for layer in module.modules() if any(p.requires_grad for p in layer.parameters(recurse=False))]
    hooks = [layer.register_forward_hook(record) for layer in trained]
    in_place = [part for part in module.modules() if getattr(part, "inplace", False) is True]
    try:
        for part in in_place:
            part.inplace = False  # type: ignore[assignment]  # ReLU(inplace=True) would overwrite a recorded output
        yield calls
    finally:
        for part in in_place:
            part.inplace = True  # type: ignore[assignment]
        for hook in hooks:
            hook.remove()


def _parts(calls: Recorded, slopes: Sequence[torch.Tensor | None]) -> list[PerExample]:
    by_layer: dict[nn.Module, list[Call]] = {}
    for (layer, a, _, _), b in zip(calls, slopes, strict=True):
        if b is not None:
            by_layer.setdefault(layer, []).append(Call(a, b))
    found = []
    for layer, own in by_layer.items():
        rule = rule_for(layer)
        assert rule is not None
        found.append(rule(layer, own))
    return found


def _weighted(
    calls: Recorded, slopes: Sequence[torch.Tensor | None], weights: torch.Tensor
) -> dict[torch.Tensor, torch.Tensor]:
    total: dict[torch.Tensor, torch.Tensor] = {}
    with torch.no_grad():
        for part in _parts(calls, slopes):
            for parameter, gradient in part.weigh(weights):
                total[parameter] = total[parameter] + gradient if parameter in total else gradient
    return total


def _one_by_one(model: Model, x: torch.Tensor, y: torch.Tensor, clip: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The same by the gradient of each example: right for any network, and slower."""
    trained = {name: p for name, p in model.module.named_parameters() if p.requires_grad}
    totals = {name: torch.zeros_like(p) for name, p in trained.items()}
    losses, norms = [], []
    for some_x, some_y in zip(torch.split(x, _AT_ONCE), torch.split(y, _AT_ONCE), strict=True):
        try:
            gradients, loss = _vectorised(model, trained, some_x, some_y)
        except (RuntimeError, ValueError):  # such as a recurrent layer, which vmap cannot follow
            gradients, loss = _looped(model, trained, some_x, some_y)
        squares = torch.stack([found.flatten(1).square().sum(dim=1) for found in gradients.values()])
        norms.append(squares.sum(dim=0).sqrt())
        losses.append(loss)
        weights = scale(norms[-1], clip)
        for name, found in gradients.items():
            totals[name] += torch.tensordot(weights, found.nan_to_num(0, 0, 0), dims=1)
    for name, parameter in trained.items():
        parameter.grad = totals[name]
    return torch.cat(losses), torch.cat(norms)


def _vectorised(
    model: Model, trained: dict[str, nn.Parameter], x: torch.Tensor, y: torch.Tensor
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """The gradient `(n, ...)` of each example, and its loss, all examples at once."""

    def loss_of(given: dict[str, torch.Tensor], one: torch.Tensor, label: torch.Tensor) -> Any:
        loss = cross_entropy(functional_call(model.module, given, (model.preprocess(one[None]),)), label[None])
        return loss, loss.detach()

    each = vmap(grad(loss_of, has_aux=True), in_dims=(None, 0, 0), randomness="different")
    gradients, losses = each({name: p.detach() for name, p in trained.items()}, x, y)
    return gradients, losses


def _looped(
    model: Model, trained: dict[str, nn.Parameter], x: torch.Tensor, y: torch.Tensor
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """The same, one example after the other."""
    rows: dict[str, list[torch.Tensor]] = {name: [] for name in trained}
    losses = []
    for one, label in zip(x, y, strict=True):
        loss = cross_entropy(model.forward(one[None]), label[None])
        found = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
        for (name, parameter), gradient in zip(trained.items(), found, strict=True):
            rows[name].append(torch.zeros_like(parameter) if gradient is None else gradient)
        losses.append(loss.detach())
    return {name: torch.stack(each) for name, each in rows.items()}, torch.stack(losses)
