"""VNN-LIB: the file format in which verifiers of networks are given their properties, read, written and decided.

A property is a box of inputs and what the outputs must never be there. This reads the part of the language that the
benchmarks of robustness use: bounds of inputs; comparisons of outputs with each other or with numbers; `and`, `or`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

import torch

from modelkeep.certify.interpreter import run
from modelkeep.certify.linear_bounds import LinearBounds
from modelkeep.certify.trace import tensors_of, trace_operations
from modelkeep.core.errors import InputError
from modelkeep.core.files import replace_file
from modelkeep.core.model import Model

Decision = Literal["holds", "violated", "unknown"]
_STEPS = 40  # of the search for an input that violates the property


@dataclass(frozen=True)
class Property:
    """For all inputs between `low` and `high`, `(d,)` each: none of the `unsafe` conditions is met.

    A condition `(rows, limits)` is met where `rows @ y <= limits` for all its rows, `(r, m)` and `(r,)`.
    """

    low: torch.Tensor
    high: torch.Tensor
    unsafe: tuple[tuple[torch.Tensor, torch.Tensor], ...]


def write_property(
    path: Path, x: torch.Tensor, radius: float, label: int, classes: int, bounds: tuple[float, float] | None = None
) -> Path:
    """Write that around `x`, within `radius` in ℓ∞ and within the bounds of the data, `label` stays on top."""
    flat = x.detach().double().flatten()
    low, high = flat - radius, flat + radius
    if bounds is not None:
        low, high = low.clamp(*bounds), high.clamp(*bounds)
    lines = [f"; Class {label} stays on top within {radius!r} in linf."]
    lines += [f"(declare-const X_{i} Real)" for i in range(len(flat))]
    lines += [f"(declare-const Y_{i} Real)" for i in range(classes)]
    for i, (least, most) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        lines += [f"(assert (<= X_{i} {most:.17f}))", f"(assert (>= X_{i} {least:.17f}))"]
    others = " ".join(f"(and (>= Y_{i} Y_{label}))" for i in range(classes) if i != label)
    with replace_file(path) as unfinished:
        unfinished.write_text("\n".join([*lines, f"(assert (or {others}))", ""]), encoding="utf-8")
    return path


def read_property(path: Path) -> Property:
    """The property of a VNN-LIB file; refused is what it says beyond the part that is read."""
    try:
        text = re.sub(r";[^\n]*", "", path.read_text(encoding="utf-8"))
        said = list(_expressions(iter(re.findall(r"[()]|[^\s()]+", text))))
        return _property(said)
    except OSError as error:
        raise InputError(f"'{path}' cannot be read: {error.strerror}.") from error
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, StopIteration, RecursionError) as error:
        raise InputError(f"'{path}' is not a property that can be read: {error}.") from error


def decide(model: Model, wanted: Property) -> tuple[Decision, torch.Tensor | None]:
    """Whether the property holds of the network in exact arithmetic, by linear bounds; else an input that violates it.

    "unknown" where neither was found. Linear bounds look at each condition as a whole box, and do not split it.
    """
    operations = trace_operations(model)
    tensors = {name: tensor.detach().cpu().double() for name, tensor in tensors_of(model.module).items()}
    if wanted.low.numel() != model.probe()[0].numel():
        raise InputError(f"The property is of {wanted.low.numel()} inputs, the model of the shape {model.input_shape}.")
    low, high = (end.view(1, *model.input_shape) for end in (wanted.low, wanted.high))
    middle, reach, last = (low + high) / 2, (high - low) / 2, operations[-1].name
    with torch.no_grad():
        bounds = LinearBounds(operations, tensors, "linf", middle, reach * (1 + 1e-12))
        open_ones = []
        for rows, limits in wanted.unsafe:
            each = rows.double()[None]
            least = torch.maximum(bounds.at_least(last, each), bounds.by_intervals(last, each))[0]
            if not (least > limits).any():  # none of its rows is impossible in all of the box
                open_ones.append((rows.double(), limits.double()))
    if not open_ones:
        return "holds", None
    for rows, limits in open_ones:
        x = middle
        for step in range(_STEPS):
            at = x.detach().requires_grad_()
            y = run(operations, at, tensors)[last][0]
            excess = (rows @ y - limits).amax()
            if excess <= 0:
                return "violated", at.detach()[0]
            (slope,) = torch.autograd.grad(excess, at)
            length = 1.0 if step == 0 else 0.5 * (1 - step / _STEPS)
            x = torch.minimum(torch.maximum(at.detach() - length * reach * slope.sign(), low), high)
    return "unknown", None


def _expressions(words: Iterator[str]) -> Iterator[Any]:
    for word in words:
        if word == "(":
            yield list(_expressions(words))
        elif word == ")":
            return
        else:
            yield word


def _property(said: list[Any]) -> Property:
    names = [each[1] for each in said if each[0] == "declare-const"]
    inputs, outputs = (sum(name.startswith(f"{kind}_") for name in names) for kind in "XY")
    low = torch.full((inputs,), -torch.inf, dtype=torch.float64)
    high = -low
    conditions: list[list[list[tuple[dict[int, float], float]]]] = []
    for command, *rest in said:
        if command == "declare-const":
            continue
        if command != "assert":
            raise ValueError(f"it has a command '{command}'")
        (claim,) = rest
        if claim[0] in ("<=", ">=") and claim[1].startswith("X_"):
            place, number = int(claim[1][2:]), float(claim[2])
            if claim[0] == "<=":
                high[place] = min(float(high[place]), number)
            else:
                low[place] = max(float(low[place]), number)
        else:
            conditions.append(_any_of(claim))
    if not inputs or not outputs or not conditions or not (torch.isfinite(low) & torch.isfinite(high)).all():
        raise ValueError("it does not bound all inputs from both sides, or says nothing of the outputs")
    # Each assertion is an `or` of `and`s, and all must be met: one choice from each.
    unsafe = []
    for choice in product(*conditions):
        parts = [part for group in choice for part in group]
        rows = torch.zeros(len(parts), outputs, dtype=torch.float64)
        for row, (coefficients, _) in zip(rows, parts, strict=True):
            for place, coefficient in coefficients.items():
                row[place] += coefficient
        unsafe.append((rows, torch.tensor([limit for _, limit in parts], dtype=torch.float64)))
    return Property(low, high, tuple(unsafe))


def _any_of(claim: list[Any]) -> list[list[tuple[dict[int, float], float]]]:
    """The claim as alternatives, each of several rows `coefficients · y <= limit`."""
    if claim[0] == "or":
        return [alternative for each in claim[1:] for alternative in _any_of(each)]
    if claim[0] == "and":
        return [[row for group in choice for row in group] for choice in product(*map(_any_of, claim[1:]))]
    if claim[0] not in ("<=", ">=") or len(claim) != 3:
        raise ValueError(f"it has a claim '{claim[0]}'")
    smaller, larger = claim[1:] if claim[0] == "<=" else claim[:0:-1]
    coefficients: dict[int, float] = {}
    limit = 0.0
    for word, sign in ((smaller, 1.0), (larger, -1.0)):
        if word.startswith("Y_"):
            coefficients[int(word[2:])] = coefficients.get(int(word[2:]), 0.0) + sign
        elif word.startswith("X_"):
            raise ValueError("an input stands among the outputs")
        else:
            limit -= sign * float(word)
    return [[(coefficients, limit)]]
