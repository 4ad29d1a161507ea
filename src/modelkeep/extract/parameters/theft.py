"""Steal the parameters of a small ReLU network by asking for probabilities: Leino2022, section 8.6.2."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import nn

from modelkeep.core.errors import ModelError, QueryBudget, bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.progress import task
from modelkeep.core.results import Result, Tensor, measured
from modelkeep.extract.parameters.hyperplanes import hyperplanes
from modelkeep.extract.parameters.last_layer import Network, fit
from modelkeep.extract.parameters.oracle import Array, Oracle, Saturated, Unrecoverable, noise
from modelkeep.extract.target import Target

_CHECKS = 256  # fresh queries that a recovered network must answer as the victim does
RIGHT = 1e-3  # the largest error on them, relative to the spread of the logits, of a network that counts as recovered
SAME = 1e-3  # hyperplanes that are nearer than this, relative to how far away they are, are one
_UNUSED = 1e-6  # a unit whose weight in the last layer is this small, relative to the largest, is none
ROUNDS = 16  # directions that are tried
_BARREN = 3  # directions without a new unit after which a network that is right enough is taken


@dataclass(frozen=True, kw_only=True, eq=False)
class Stolen(Result, kind="stolen"):
    """What came back: the network, or why there is none.

    The weights are those of the victim up to what its probabilities cannot tell: the order of units, a positive factor
    per unit (rows of `first` have length one), and what all classes share (columns of `last` and `last_bias` sum to 0).
    """

    schema: ClassVar[int] = 1
    failure: str | None  # why nothing is returned; None when the network was recovered
    input_shape: tuple[int, ...]
    classes: tuple[str, ...]
    queries: int
    parameters: int
    directions: int  # how many directions of lines were needed
    noise: float  # the error of the answers that the thief measured, relative to the logits
    error: float  # the largest error of a centred logit on fresh queries, relative to their spread
    first: Tensor  # (units, width), float64; empty when failed, as the others are
    first_bias: Tensor
    last: Tensor
    last_bias: Tensor

    @property
    def recovered(self) -> bool:
        """Whether there is a network to look at."""
        return self.failure is None

    def model(self, dtype: torch.dtype = torch.float64) -> Model:
        """The recovered network as a model."""
        if self.failure is not None:
            raise ModelError(f"No network was recovered: {self.failure}.")
        units, width = self.first.shape
        hidden, out = nn.Linear(width, units), nn.Linear(units, len(self.classes))
        module = nn.Sequential(nn.Flatten(), hidden, nn.ReLU(), out).to(dtype)
        with torch.no_grad():
            for parameter, values in (
                (hidden.weight, self.first),
                (hidden.bias, self.first_bias),
                (out.weight, self.last),
                (out.bias, self.last_bias),
            ):
                parameter.copy_(values)
        return Model(module, input_shape=self.input_shape, classes=self.classes, bounds=None)

    def rows(self) -> list[tuple[str, str]]:
        if self.failure is not None:
            return [("recovered", f"no: {self.failure}"), ("queries", f"{self.queries:,}")]
        return [
            ("recovered", f"{len(self.first)} units, {self.parameters} parameters"),
            ("queries", f"{self.queries:,}, {self.queries / self.parameters:.1f} per parameter"),
            ("largest error on fresh queries", f"{self.error:.1e} of the spread of the logits"),
            ("noise of the answers", f"{self.noise:.1e}"),
        ]


def steal(target: Target, *, seed: int = 0, most_units: int = 64, reach: float | None = None) -> Stolen:
    """Recover a network with one hidden layer of ReLU units from its probabilities alone.

    Lines in random directions are searched for kinks; parallel lines give points of each unit's hyperplane; the last
    layer and the signs follow by least squares. A network is returned only if it answers fresh queries as the target
    does; answers that were perturbed are noticed and said, never fitted.

    Args:
        target: Answers queries with probabilities; queries may lie outside the range of ordinary inputs.
        seed: Draws the lines.
        most_units: Give up beyond this many kinks on a line.
        reach: How far lines go from the origin; 10·√width by default, halved while the answers are saturated. A unit
            that does not switch within reach cannot be seen.

    >>> from modelkeep.core.access import Scores
    >>> _ = torch.manual_seed(0)
    >>> module = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 3)).double()
    >>> stolen = steal(Scores(Model(module, input_shape=(4,), classes=3)))
    >>> stolen.recovered, len(stolen.first), stolen.error < 1e-8
    (True, 3, True)
    """
    if most_units < 1:
        raise bad_parameter("steal", "most_units", "at least 1", most_units)
    if reach is not None and reach <= 0:
        raise bad_parameter("steal", "reach", "None or a number above 0", reach)
    oracle = Oracle(target)
    with measured(seed) as provenance:
        failure, found = None, _Found(Network(*(np.empty(shape) for shape in ((0, 0), 0, (0, 0), 0))))
        try:
            found = _search(oracle, np.random.default_rng(seed), most_units, reach or 10 * oracle.width**0.5)
        except (Unrecoverable, QueryBudget) as why:
            failure = str(why).removesuffix(".")
    network = found.network
    return Stolen(
        provenance=provenance(),
        failure=failure,
        input_shape=tuple(target.input_shape),
        classes=tuple(target.classes),
        queries=oracle.queries,
        parameters=network.parameters,
        directions=found.directions,
        noise=found.noise,
        error=found.error,
        first=torch.from_numpy(network.first),
        first_bias=torch.from_numpy(network.first_bias),
        last=torch.from_numpy(network.last),
        last_bias=torch.from_numpy(network.last_bias),
    )


@dataclass(frozen=True, eq=False)
class _Found:
    network: Network
    directions: int = 0
    noise: float = math.nan
    error: float = math.nan


def _search(oracle: Oracle, random: np.random.Generator, most: int, reach: float) -> _Found:
    """Directions of lines, one after the other, until the units that they crossed explain the answers."""
    reach, level = _reach(oracle, random, reach)
    away = random.standard_normal((_CHECKS, oracle.width))
    away *= reach * random.random((_CHECKS, 1)) / np.linalg.norm(away, axis=1, keepdims=True)
    wanted = oracle(away, keep=False)
    planes = np.empty((0, oracle.width + 1))
    error, barren = math.inf, 0
    with task("parameters", total=ROUNDS) as running:
        for directions in range(1, ROUNDS + 1):
            new = _new(planes, hyperplanes(oracle, random, reach=reach, noise=level, most=most))
            planes = np.concatenate([planes, new])
            running.advance(note=f"{len(planes)} units, {oracle.queries:,} queries")
            if len(planes) > most:
                raise Unrecoverable(f"more than {most} units bend its logits; raise most_units if it may be that large")
            if len(new):
                network = fit(planes, *oracle.heard())
                used = np.linalg.norm(network.last, axis=0)
                if used.min() <= _UNUSED * used.max():  # kinks too near to be told apart made a hyperplane of no unit
                    planes = planes[used > _UNUSED * used.max()]
                    network = fit(planes, *oracle.heard())
                error = float(np.abs(network.logits(away) - wanted).max() / wanted.std())
            barren = 0 if len(new) else barren + 1
            # To the last digit, nothing is left to find; short of it, a unit of little effect may still be missing.
            if error <= 50 * level or (error <= RIGHT and (barren >= _BARREN or directions == ROUNDS)):
                return _Found(network, directions, level, error)
    raise Unrecoverable(
        f"the {len(planes)} units that bend its logits do not explain its answers (error {error:.1e} of their spread): "
        f"it has another form, units that switch beyond the reach of {reach:.3g}, or guarded answers"
    )


def _reach(oracle: Oracle, random: np.random.Generator, reach: float) -> tuple[float, float]:
    """A reach at which no answer is saturated (twice as far as will be asked), and the noise of the answers there."""
    for _ in range(12):
        try:
            corners = random.standard_normal((64, oracle.width))
            oracle(2 * reach * corners / np.linalg.norm(corners, axis=1, keepdims=True), keep=False)
            return reach, noise(oracle, random, reach)
        except Saturated as why:
            reach, last = reach / 2, why
    raise last


def _new(planes: Array, found: Array) -> Array:
    """Hyperplanes that are not known yet, whichever way their normals point."""
    fresh = [
        plane
        for plane in found
        if all(min(np.abs(p - plane).max(), np.abs(p + plane).max()) > SAME * (1 + abs(plane[-1])) for p in planes)
    ]
    return np.array(fresh).reshape(len(fresh), planes.shape[1])
