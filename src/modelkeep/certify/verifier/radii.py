"""How far an input may be moved: from its logits, the constants of the pairs of classes, and the rounding."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .arithmetic import Array
from .network import Refused

PAIRS = ("apart", "lengths", "constant")


def claimed_radius(entry: Mapping[str, Any]) -> float:
    """The radius of an input; null stands for no limit."""
    return math.inf if entry["radius"] is None else float(entry["radius"])


def own_radius(claims: Mapping[str, Any], entry: Mapping[str, Any], K: Array) -> tuple[float, tuple[int, ...]]:
    """How far the input may be moved, and the largest set of classes that is safe at the certificate's radius.

    The k top classes stay on top of all others, in the network as its owner computes it, while for each pair the margin
    is above ε K and the rounding at the other end: what it is here, and what c ε adds, the ℓ2 length of the change.
    """
    logits, rounding = np.asarray(entry["logits"], np.float64), claims["rounding"]
    c = math.sqrt(math.prod(claims["model"]["input_shape"])) if claims["norm"] == "linf" else 1.0
    growth = {
        "carried": np.dot(rounding["carried"], rounding["gains"]),
        "made": np.dot(rounding["made"], rounding["gains"]),
    }
    rate, fixed = K + c * (error_at(claims, growth) - np.asarray(rounding["constant"])), error_at(claims, entry)
    best = 0.0
    safe: tuple[int, ...] = ()
    order = np.argsort(-logits, kind="stable")
    for k in allowed(claims["guarantee"], order):
        pairs = np.ix_(order[:k], order[k:])
        room = np.subtract.outer(logits[order[:k]], logits[order[k:]]) - fixed[pairs]
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(rate[pairs] > 0, room / rate[pairs], np.where(room > 0, np.inf, 0.0))
        radius = float(reach.min(initial=np.inf))
        best = max(best, radius)
        if radius > claims["radius"]:
            safe = tuple(int(label) for label in order[:k])
    return best, safe


def allowed(guarantee: Mapping[str, Any], order: Array) -> Iterator[int]:
    """Which k the guarantee accepts, where `order` has the classes by falling logit."""
    if guarantee["kind"] == "affinity":
        groups = [set(group) for group in guarantee["groups"]]
        yield from (k for k in range(1, len(order) + 1) if any(set(order[:k].tolist()) <= group for group in groups))
    elif guarantee["kind"] in ("standard", "top-k"):
        yield from range(1, min(len(order), 1 if guarantee["kind"] == "standard" else guarantee["k"]) + 1)
    else:
        raise Refused(f"This verifier does not know the guarantee '{guarantee['kind']}'.")


def error_at(claims: Mapping[str, Any], entry: Mapping[str, Any]) -> Array:
    """How far the owner's margins may be from exact ones at the input: (m, m)."""
    apart, lengths, constant = (np.asarray(claims["rounding"][name], np.float64) for name in PAIRS)
    return np.asarray(apart * float(entry["carried"]) + lengths * float(entry["made"]) + constant)
