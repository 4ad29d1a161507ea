"""Single boundaries of a ReLU network from its answers, for about two queries per input (Leino2022, section 8.6.2).

A network whose first layer leaks needs not be stolen as a whole: one hyperplane shows a training example. Binary search
along a line finds a bend (Rolnick2020). The gradients on its two sides, by differences, differ by a multiple of the
unit's normal, which is its weight column.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch

from modelkeep.core.errors import QueryBudget, bad_parameter
from modelkeep.core.progress import task
from modelkeep.core.results import Estimate, Result, Tensor, measured
from modelkeep.extract.parameters.oracle import Array, Oracle, Saturated, noise
from modelkeep.extract.target import Target

_FINEST = 1e-6  # how exactly a bend is placed, as a share of the line; differences lose their digits below
_BESIDE = 20.0  # how far beside the bend gradients are taken, in units of that
_STEP = (
    0.05  # the step of a difference, in units of it: far below the distance of the bend, which a slant makes shorter
)
_ONE = 1e-2  # the second singular value of a jump over the first, above which several units bend in one place
_NEAR = 1e-5  # how near to a hyperplane a bend must be to be its own, as a share of the line
_ELSEWHERE = 5  # places of a hyperplane at which a unit of the first layer must bend, too


@dataclass(frozen=True, kw_only=True, eq=False)
class Boundaries(Result, kind="boundaries"):
    """Hyperplanes on which units switch: `normals: (k, width)` of length one, and `offsets: (k,)`.

    A point x lies in one where normal·x + offset = 0; the sign of a normal is arbitrary. `first_layer: (k,)` says which
    bend the answers everywhere, not only where they were found. `queries: (k,)` is what each cost.
    """

    schema: ClassVar[int] = 1
    width: int
    attempts: int
    all_queries: int
    normals: Tensor = field(repr=False)
    offsets: Tensor = field(repr=False)
    first_layer: Tensor = field(repr=False)
    queries: Tensor = field(repr=False)

    @property
    def per_input(self) -> float:
        """Queries per hyperplane and input, attempts in vain included."""
        return self.all_queries / max(len(self.queries), 1) / self.width

    def rows(self) -> list[tuple[str, str]]:
        first = int(self.first_layer.sum())
        return [
            ("hyperplanes", f"{len(self.normals)} in {self.attempts} attempts, {first} of the first layer"),
            ("queries", f"{self.all_queries:,}, {self.per_input:.2f} per hyperplane and input"),
        ]

    def cosines(self, weight: torch.Tensor) -> Estimate:
        """How near the hyperplanes of the first layer are to columns of its weights, `(units, width)`, by cosine."""
        columns = weight.detach().double().flatten(1)
        found = self.normals[self.first_layer] @ (columns / columns.norm(dim=1, keepdim=True)).T
        return Estimate.bootstrap(found.abs().max(dim=1).values.numpy())


def uncover(
    target: Target, *, attempts: int = 16, bounds: tuple[float, float] = (0.0, 1.0), seed: int = 0
) -> Boundaries:
    """Find hyperplanes of a ReLU network by asking for probabilities, one per attempt.

    Args:
        target: Answers queries with probabilities, best in double precision.
        attempts: Lines that are searched, between random points.
        bounds: The range of an input, in which lines begin and end.
        seed: Draws the lines.

    >>> from modelkeep import Model
    >>> from modelkeep.core.access import Scores
    >>> _ = torch.manual_seed(0)
    >>> module = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3)).double()
    >>> found = uncover(Scores(Model(module, input_shape=(4,), classes=3)), bounds=(-3.0, 3.0))
    >>> round(found.cosines(module[0].weight).value, 6)
    1.0
    """
    if attempts < 1:
        raise bad_parameter("uncover", "attempts", "at least 1", attempts)
    oracle, random = Oracle(target), np.random.default_rng(seed)
    found: list[tuple[_Plane, int]] = []
    tried = 0
    low, high = bounds
    with measured(seed) as provenance, task("hyperplanes", total=attempts) as running:
        try:
            level = noise(oracle, random, (high - low) / 2)
            for _ in range(attempts):
                before = oracle.queries
                ends = low + (high - low) * random.random((2, oracle.width))
                plane = _attempt(oracle, random, ends, level)
                tried += 1
                running.advance(note=f"{len(found)} found, {oracle.queries:,} queries")
                if plane is not None:
                    found.append((plane, oracle.queries - before))
        except (QueryBudget, Saturated):
            pass  # what was found so far stands
    normals = np.array([plane.normal for plane, _ in found]).reshape(len(found), oracle.width)
    return Boundaries(
        provenance=provenance(),
        width=oracle.width,
        attempts=tried,
        all_queries=oracle.queries,
        normals=torch.from_numpy(normals),
        offsets=torch.tensor([plane.offset for plane, _ in found], dtype=torch.float64),
        first_layer=torch.tensor([plane.first_layer for plane, _ in found], dtype=torch.bool),
        queries=torch.tensor([queries for _, queries in found], dtype=torch.int64),
    )


@dataclass(frozen=True, eq=False)
class _Plane:
    normal: Array
    offset: float
    first_layer: bool


def _attempt(oracle: Oracle, random: np.random.Generator, ends: Array, level: float) -> _Plane | None:
    """The hyperplane of one bend between two points; None where there is none, or several meet."""
    finest = max(_FINEST, float(np.sqrt(level)))
    place = _find_bend(oracle, ends, level, finest)
    if place is None:
        return None
    line = ends[1] - ends[0]
    step = _STEP * finest * float(np.linalg.norm(line))
    sides = [ends[0] + (place + sign * _BESIDE * finest) * line for sign in (-1, 1)]
    before, after = (_gradient(oracle, x, step) for x in sides)
    _, sizes, directions = np.linalg.svd(after - before, full_matrices=False)
    if sizes[0] <= 0 or (len(sizes) > 1 and sizes[1] > _ONE * sizes[0]):
        return None
    normal: Array = directions[0]
    at = ends[0] + place * line
    return _Plane(normal, -float(normal @ at), _bends_elsewhere(oracle, random, normal, at, line, level))


def _find_bend(oracle: Oracle, ends: Array, level: float, finest: float) -> float | None:
    """Where the answers bend between two points, as a share of the way: halves of a bent part, one after the other."""

    def ask(share: float) -> Array:
        answer: Array = oracle((ends[0] + share * (ends[1] - ends[0]))[None], keep=False)[0]
        return answer

    def bent(left: Array, middle: Array, right: Array) -> bool:
        size = 1 + max(float(np.abs(each).max()) for each in (left, middle, right))
        return float(np.abs(middle - (left + right) / 2).max()) > 16 * level * size

    low, high = 0.0, 1.0
    left, middle, right = ask(low), ask(0.5), ask(high)
    if not bent(left, middle, right):
        return None
    while high - low > finest:
        half = (low + high) / 2
        quarter = ask((low + half) / 2)
        if bent(left, quarter, middle):
            high, right, middle = half, middle, quarter
        else:  # then it is on the other side, or at the half itself
            low, left, middle = half, middle, ask((half + high) / 2)
    return (low + high) / 2


def _gradient(oracle: Oracle, x: Array, step: float) -> Array:
    """The derivatives `(classes, width)` of the answers at `x: (width,)`, by one more query per input."""
    answers = oracle(np.concatenate([x[None], x + step * np.eye(len(x))]), keep=False)
    gradient: Array = (answers[1:] - answers[0]).T / step
    return gradient


def _bends_elsewhere(
    oracle: Oracle, random: np.random.Generator, normal: Array, at: Array, line: Array, level: float
) -> bool:
    """Whether the answers bend on the hyperplane far from where it was found, as they do for a unit of the first layer.

    The boundary of a deeper unit leaves its hyperplane where units before it switch. So near the hyperplane, and as
    far from the place as the line is long, nothing bends but by chance: more than half of the places must.
    """
    length = float(np.linalg.norm(line))
    away = random.standard_normal((_ELSEWHERE, len(at)))
    away -= np.outer(away @ normal, normal)
    away *= length / np.linalg.norm(away, axis=1, keepdims=True)
    places, beside = at + away, _NEAR * length * normal
    answers = oracle(np.concatenate([places - beside, places, places + beside]), keep=False)
    left, middle, right = answers.reshape(3, _ELSEWHERE, -1)
    bends = np.abs(middle - (left + right) / 2).max(axis=1)
    return int((bends > 16 * level * (1 + np.abs(answers).max())).sum()) > _ELSEWHERE / 2
