"""Playground: one example under attack, at every radius of a slider, with what is proved about it.

The nearest adversarial example is looked for once, by an attack of smallest changes. Each radius is then asked by an
attack within it. Below the nearest one a person sees the way to it, and what both attacks say: not found, which proves
nothing. A certificate is a proof, and stands apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch

from modelkeep.attack import FMN, PGD, Attacked
from modelkeep.core.black_box import require_access
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, ModelKeepError, bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball, Norm
from modelkeep.web.exhibits import Kind, Lookout, Share, kind_of, top_shares
from modelkeep.web.proofs import Proofs

STEPS = 40
"""Positions of the slider above 0."""
NORMS: tuple[Norm, ...] = ("l2", "linf", "l1")
State = Literal["start", "proved", "found", "open", "wrong"]
"""Known at a radius: nothing is changed yet; no change matters; one was found; neither; the answer is wrong anyway."""
_NEAR = 1.6  # the slider ends so much beyond the nearest adversarial example
_USUAL: dict[Norm, float] = {"l2": 0.25, "linf": 0.25, "l1": 0.05}
"""Where nothing was found, the slider ends at this share of the largest change that the bounds allow."""


@dataclass(frozen=True)
class Trail:
    """What is known about one example in one norm, whatever the radius.

    `nearest` is the distance of the nearest adversarial example that was found, or None; below `certified` no change
    matters, and `why_not` says why there is no such proof.
    """

    index: int
    norm: Norm
    label: str
    before: tuple[Share, ...]
    wrong: bool
    nearest: float | None
    nearest_answer: str | None
    certified: float | None
    why_not: str
    radii: tuple[float, ...]
    health: tuple[str, ...]
    search: Attacked


@dataclass(frozen=True)
class Position:
    """One radius: the input that is shown there, how it is answered, and what is known.

    `shown: (*input_shape)` is adversarial where something was found within the radius, else the point of this radius on
    the way to the nearest adversarial example, else the original.
    """

    radius: float
    state: State
    shown: torch.Tensor
    distance: float
    answer: tuple[Share, ...]
    sentence: str
    attacked: Attacked | None


class Playground:
    """Attacks on one example at a time. What was found is kept; the caller holds the model's lock."""

    def __init__(self, model: Model, data: Data) -> None:
        self.model, self.data = model, data
        self.kind: Kind = kind_of(data)
        if self.kind == "text":
            raise InputError(
                "A text has no radius: between two words there is none. `modelkeep attack MODEL --data DATA --method "
                "hotflip` exchanges words, and its page shows them before and after."
            )
        instead = "square" if model.access == "scores" else "boundary"
        require_access(
            model.access,
            "weights",
            "To drag the radius",
            f" `modelkeep attack MODEL --data DATA --method {instead}` attacks it by its answers.",
        )
        self.lookout = Lookout(model, data)
        self.proofs = Proofs(model, data, self.lookout)
        self.trail = lru_cache(maxsize=256)(self._trail)
        self.at = lru_cache(maxsize=2048)(self._at)

    def _trail(self, index: int, norm: Norm, seed: int = 0) -> Trail:
        """Find the nearest adversarial example of example `index`, and lay out the slider."""
        one = self._one(index)
        if norm not in NORMS:
            raise bad_parameter("trail", "norm", f"one of {', '.join(NORMS)}", norm)
        found = FMN(norm=norm)(self.model, one, seed=seed)
        before = top_shares(self.model.probs(one.x)[0].cpu(), self.model.classes)
        wrong = int(found.before[0]) != int(found.labels[0])
        nearest = float(found.distance[0]) if bool(found.success[0]) and not wrong else None
        certified, why_not = self._certified(index, norm)
        end = self._end(norm, nearest, certified)
        return Trail(
            index=index,
            norm=norm,
            label=self.model.classes[int(found.labels[0])],
            before=before,
            wrong=wrong,
            nearest=nearest,
            nearest_answer=self._name(int(found.after[0])) if nearest is not None else None,
            certified=certified,
            why_not=why_not,
            radii=tuple(float(f"{end * step / STEPS:.6g}") for step in range(STEPS + 1)),
            health=found.health,
            search=found,
        )

    def _at(self, index: int, norm: Norm, step: int, seed: int = 0) -> Position:
        """What is known at one position of the slider."""
        trail = self.trail(index, norm, seed)
        if not 0 <= step <= STEPS:
            raise bad_parameter("at", "step", f"0 to {STEPS}", step)
        radius = trail.radii[step]
        original = trail.search.original[0]
        proved = trail.certified is not None and radius < trail.certified
        if trail.wrong:
            return self._position(trail, radius, "wrong", original, None)
        if step == 0:
            return self._position(trail, radius, "start", original, None)
        if proved:
            return self._position(trail, radius, "proved", self._on_the_way(trail, radius), None)
        attacked = PGD(norm=norm, radius=radius)(self.model, self._one(index), seed=seed)
        if bool(attacked.success[0]):
            return self._position(trail, radius, "found", attacked.adversarial[0], attacked)
        if trail.nearest is not None and trail.nearest <= radius:
            return self._position(trail, radius, "found", trail.search.adversarial[0], attacked)
        return self._position(trail, radius, "open", self._on_the_way(trail, radius), attacked)

    def _position(
        self, trail: Trail, radius: float, state: State, shown: torch.Tensor, attacked: Attacked | None
    ) -> Position:
        """The input as it is shown, answered in a pass of its own."""
        answer = top_shares(self.model.probs(shown[None])[0].cpu(), self.model.classes)
        distance = float(Ball(trail.norm, None).distance(shown[None], trail.search.original)[0])
        sentence = _sentence(trail, radius, state, answer[0].name)
        return Position(radius, state, shown, distance, answer, sentence, attacked)

    def _on_the_way(self, trail: Trail, radius: float) -> torch.Tensor:
        """The point at this radius on the line to the nearest adversarial example; the original where there is none."""
        original = trail.search.original[0]
        if trail.nearest is None or trail.nearest == 0:
            return original
        moved = torch.lerp(original, trail.search.adversarial[0], min(radius / trail.nearest, 1.0))
        return Ball(trail.norm, None, self.model.bounds).project(moved[None], original[None])[0]

    def _certified(self, index: int, norm: Norm) -> tuple[float | None, str]:
        try:
            return self.proofs.radius(index, norm), ""
        except ModelKeepError as error:
            return None, str(error)

    def _end(self, norm: Norm, nearest: float | None, certified: float | None) -> float:
        """Where the slider ends: beyond what is known, and no farther than an input can be moved."""
        width = self._width(norm)
        if nearest:
            return round_up(min(max(_NEAR * nearest, certified or 0.0), width))
        if certified:
            return round_up(min(2 * certified, width))
        return round_up(_USUAL[norm] * width)

    def _width(self, norm: Norm) -> float:
        """The largest change of an input that its bounds, or else the data, allow."""
        x = self.lookout.data.x
        low, high = self.model.bounds if self.model.bounds is not None else (x.amin(dim=0), x.amax(dim=0))
        change = (torch.as_tensor(high) - torch.as_tensor(low)).expand(self.data.input_shape)
        return float(Ball(norm, None).distance(change[None], torch.zeros_like(change)[None])[0]) or 1.0

    def _name(self, label: int) -> str:
        return self.model.classes[label] if label >= 0 else "not a number"  # -1: the network gives NaN there

    def _one(self, index: int) -> Data:
        if not 0 <= index < len(self.data):
            raise InputError(f"There are examples 0 to {len(self.data) - 1}. Got {index}.")
        return self.data.take([index]).load()


def round_up(value: float) -> float:
    """The next number with two digits, the end of a scale.

    >>> round_up(0.613), round_up(7.0)
    (0.62, 7.0)
    """
    if value <= 0 or not math.isfinite(value):
        return 1.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return round(math.ceil(value / unit - 1e-9) * unit, 12)


def _sentence(trail: Trail, radius: float, state: State, answer: str) -> str:
    before = trail.before[0].name
    if state == "wrong":
        return f"The answer '{before}' is wrong before any change, so there is nothing to attack. Choose another one."
    if state == "proved":
        return f"Proved: no change of up to {radius:.3g} ({trail.norm}) alters the answer '{before}'."
    if state == "found":
        return f"Found: within {radius:.3g} ({trail.norm}) a change turns '{before}' into '{answer}'."
    if state == "start":
        return f"Nothing is changed: the answer is '{before}'."
    return f"Not found within {radius:.3g} ({trail.norm}), which proves nothing: another attack may find one."
