"""Places to look at first, where the user names none: the last feature map and the last place before the logits."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from modelkeep.core.errors import SliceError
from modelkeep.core.model import Model
from modelkeep.explain.orientation import orientation_at, oriented_slice


def last_inner_place(model: Model) -> str | None:
    """The last named module whose output is not the logits; None where the network has no inner place."""
    return next((name for name, _ in _inner_places(model)), None)


def last_feature_map(model: Model) -> str | None:
    """The last named module whose output `(n, channels, height, width)` still knows where something is, or None."""
    if model.nest is not None and model.nest.tokens is not None:
        return None  # a text is no picture, and to look at each place of a transformer costs half a minute
    maps = (name for name, value in _inner_places(model) if value.ndim == 4 and value[0, 0].numel() > 1)
    return next((name for name in maps if orientation_at(model, name).known), None)


def _inner_places(model: Model) -> Iterator[tuple[str, torch.Tensor]]:
    """Named modules and their outputs on a probe, the last first."""
    modules = dict(model.module.named_modules())
    with torch.no_grad():
        logits = model.forward(model.probe()).shape
        for name in reversed([name for name in model.slices() if name in modules]):
            try:
                value = oriented_slice(model, name).h(model.probe()).value
            except SliceError:  # called more than once, or works in place: not a place to choose for the user
                continue
            if value.shape != logits:
                yield name, value
