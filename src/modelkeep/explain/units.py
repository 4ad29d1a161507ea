"""Units: what counts as one feature at a slice, and what it becomes when it is taken away."""

from __future__ import annotations

import torch

from modelkeep.core.errors import InputError


def units_of(values: torch.Tensor, slice: str) -> torch.Tensor:
    """`values: (n, *slice shape)` summed within each unit, `(n, units)`.

    A pixel of an input picture is a unit, all its channels together; at an inner slice a whole channel of a feature
    map is one. Everywhere else each number is its own unit.
    """
    if values.ndim == 4:
        values = values.sum(dim=1) if slice == "input" else values.sum(dim=(2, 3))
    return values.flatten(1)


def spread_over(units: torch.Tensor, value: torch.Tensor, slice: str) -> torch.Tensor:
    """One flag per unit, `(n, units)`, as a mask that `value: (n, *slice shape)` can be combined with."""
    units = units.to(value.device)
    if value.ndim == 4:
        return units.view(len(value), 1, *value.shape[2:]) if slice == "input" else units[:, :, None, None]
    return units.view(value.shape)


def expand_baseline(baseline: float | torch.Tensor, value: torch.Tensor, function: str) -> torch.Tensor:
    """The baseline for each number of `value: (n, *slice shape)`: a number for all, or one value at the slice."""
    away = torch.as_tensor(baseline, dtype=value.dtype, device=value.device)
    if not torch.isfinite(away).all():
        raise InputError(f"The 'baseline' parameter of {function} must be finite.")
    if away.ndim > 0 and away.shape != value.shape[1:]:
        raise InputError(
            f"The 'baseline' parameter of {function} must be a number or have the shape {tuple(value.shape[1:])} of "
            f"one value at the slice. Got shape {tuple(away.shape)} instead."
        )
    return away.expand_as(value)
