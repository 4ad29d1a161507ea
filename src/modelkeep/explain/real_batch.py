"""Checks on the first real batch: what holds on a probe of noise need not hold on the data that is explained."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from modelkeep.core.errors import ModelError, SliceError
from modelkeep.core.model import Model
from modelkeep.core.slices import Slice
from modelkeep.core.slices.graphs import identity

# Of the largest logit; sums in another order, as in another size of batch, differ by much less.
ROUNDING = 1e-3
MIXED = 4  # examples of a batch that are asked alone

_CHECKED: WeakKeyDictionary[nn.Module, dict[Any, tuple[Any, ...]]] = WeakKeyDictionary()


class _WatchGradients(TorchFunctionMode):
    """Notes whether anything is computed without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.without = ""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        cut = isinstance(result, torch.Tensor) and result.is_floating_point() and not result.requires_grad
        if cut and any(isinstance(a, torch.Tensor) and a.requires_grad for a in args) and not torch.is_grad_enabled():
            self.without = self.without or getattr(func, "__name__", str(func))
        return result


def check_real_batch(model: Model, cutting: Slice, x: torch.Tensor) -> None:
    """Compare the cut network with the network, and examples together with examples alone; once per network and cut.

    Raises:
        SliceError: Where `g(h(x))` is not `f(x)` on these inputs.
        ModelError: Where the answer to an example depends on the others, or a part of the network computes without
            gradients, so that its influence would be 0 whatever it does.
    """
    checked, now = _CHECKED.setdefault(model.module, {}), identity(model.module)
    place = (cutting.name, cutting.call, cutting.until)
    if checked.get(place) == now:
        return
    with torch.no_grad():
        together = model.forward(x)
        if cutting.until is None and cutting.name != "input" and not torch.equal(cutting.g(cutting.h(x)), together):
            raise SliceError(
                f"Cut at '{cutting.name}', the network does not give its own output on these inputs, though it did on "
                "a probe of noise. Does it take another path for them, by their values or their number? Cut at "
                "another place."
            )
        if checked.get("alone") != now:
            _require_alone(model, x, together)
    if x.is_floating_point() and model.nest is None and checked.get("gradients") != now:
        with torch.enable_grad(), _WatchGradients() as watch:
            model.forward(x[:2].detach().requires_grad_())
        if watch.without:
            raise ModelError(
                f"The network computes a part of its answer without gradients (torch.no_grad around {watch.without}). "
                "The influence of all before it would be wrong, or 0. Take the torch.no_grad() out of its forward."
            )
    checked[place] = checked["alone"] = checked["gradients"] = now


def _require_alone(model: Model, x: torch.Tensor, together: torch.Tensor) -> None:
    """Refuse a network whose answer to an example depends on the others of its batch."""
    if len(x) < 2:
        return
    rounding = max(ROUNDING, 32 * torch.finfo(together.dtype).eps)
    for i in range(min(MIXED, len(x))):
        try:
            alone = model.forward(x[i : i + 1])
        except (RuntimeError, ValueError):  # as a batch norm says of a single example
            alone = torch.full_like(together[:1], torch.nan)
        if not torch.allclose(
            alone, together[i : i + 1], rtol=0, atol=rounding * max(float(together.abs().max()), 1e-6)
        ):
            raise ModelError(
                "The network answers an example otherwise when it is alone than when it is in a batch. Does it "
                "normalise over the batch, as BatchNorm(track_running_stats=False) does? No example could be "
                "explained on its own."
            )
