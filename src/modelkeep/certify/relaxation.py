"""Relaxation: two straight lines between which a function stays, for each value by itself (CROWN, Zhang2018)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from modelkeep.certify.interpreter import run_operation
from modelkeep.certify.intervals import Interval, is_monotone, propagate
from modelkeep.certify.operations import Operation

_OUTWARDS = 1e-9  # of the ends of a line, and of its offset, for the rounding of float64


@dataclass(frozen=True)
class Lines:
    """`below · z + below_offset <= f(z) <= above · z + above_offset` for all z of the interval."""

    below: torch.Tensor
    below_offset: torch.Tensor
    above: torch.Tensor
    above_offset: torch.Tensor


def relax(operation: Operation, z: Interval) -> Lines:
    """The lines of an activation whose inputs lie in `z`."""
    function, settings = operation.settings["function"], operation.settings
    if function == "relu":
        return _convex(z, 0.0, 1.0)
    if function == "leaky_relu" and settings["slope"] <= 1:
        return _convex(z, float(settings["slope"]), 1.0)
    if function == "abs":
        return _convex(z, -1.0, 1.0)
    if function in ("relu6", "hardtanh"):
        low, high = (0.0, 6.0) if function == "relu6" else (settings["low"], settings["high"])
        return _parallel(operation, z, ((z.low >= low) & (z.high <= high)).to(z.low))
    if is_monotone(operation) and function != "leaky_relu":
        # The slope of each of them is smallest at an end: it rises, or rises and falls again.
        return _parallel(operation, z, torch.minimum(_slope(operation, z.low), _slope(operation, z.high)))
    flat = propagate(operation, [z], {})
    zero = torch.zeros_like(z.low)
    return Lines(zero, flat.low, zero, flat.high)


def relax_relu(z: Interval) -> Lines:
    """The lines of max(z, 0)."""
    return _convex(z, 0.0, 1.0)


def _convex(z: Interval, left: float, right: float) -> Lines:
    """Of max(left · z, right · z): the chord above; below, the line that is nearer at the longer end."""
    passive, active = z.high <= 0, z.low >= 0
    bent = ~(passive | active)
    width = torch.where(bent, z.high - z.low, 1.0)
    chord = (right * z.high - left * z.low) / width
    above = torch.where(active, right, torch.where(passive, left, chord))
    # At the left end the chord meets left · low.
    offset = torch.where(bent, (left - chord) * z.low, 0.0)
    below = torch.where(active | (bent & (z.high >= -z.low)), right, left)
    outwards = torch.where(bent, _OUTWARDS * (z.low.abs() + z.high.abs()), 0.0)
    return Lines(below, torch.zeros_like(offset), above, offset + outwards)


def _parallel(operation: Operation, z: Interval, slope: torch.Tensor) -> Lines:
    """Two lines of a slope that the function never falls below: through its value at either end."""
    low, high = (run_operation(operation, [end], {}) for end in (z.low, z.high))
    below, above = low - slope * z.low, high - slope * z.high
    outwards = _OUTWARDS * (1 + low.abs() + high.abs() + z.low.abs() + z.high.abs())
    return Lines(slope, below - outwards, slope, above + outwards)


def _slope(operation: Operation, z: torch.Tensor) -> torch.Tensor:
    """The slope of the function there, a little less."""
    with torch.enable_grad():
        at = z.detach().requires_grad_()
        (slope,) = torch.autograd.grad(run_operation(operation, [at], {}).sum(), at)
    return (slope * (1 - _OUTWARDS)).clamp(min=0)
