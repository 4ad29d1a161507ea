"""Steal a softmax regression: twice as many answers as a logit has parameters give its weights away (Tramer2016)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import nn

from modelkeep.core.errors import ModelError, QueryBudget
from modelkeep.core.model import Model
from modelkeep.core.results import Result, Tensor, measured
from modelkeep.extract.parameters.oracle import Array, Oracle, Unrecoverable
from modelkeep.extract.target import Target

RIGHT = 1e-3  # the largest error on fresh questions, relative to the spread of the logits, of one that is recovered
WIDEST = 4096  # inputs beyond which the equations no longer fit into memory
_CHECKS = 256
_HALVINGS = 12  # of the distance from the middle, while the answers are saturated


@dataclass(frozen=True, kw_only=True, eq=False)
class StolenRegression(Result, kind="stolen-regression"):
    """The weights of a model whose logits are linear in its inputs, or why there are none.

    They are the victim's up to what all classes share. `error` is the largest error of a centred logit on fresh
    questions, relative to their spread.
    """

    schema: ClassVar[int] = 1
    failure: str | None
    input_shape: tuple[int, ...]
    classes: tuple[str, ...]
    queries: int
    error: float
    weight: Tensor  # (classes, width), float64; empty where it failed
    bias: Tensor  # (classes,)

    @property
    def recovered(self) -> bool:
        """Whether there are weights to look at."""
        return self.failure is None

    def model(self, dtype: torch.dtype = torch.float64) -> Model:
        """The recovered regression as a model."""
        if self.failure is not None:
            raise ModelError(f"No weights were recovered: {self.failure}.")
        layer = nn.Linear(self.weight.shape[1], len(self.classes), dtype=dtype)
        layer.load_state_dict({"weight": self.weight.to(dtype), "bias": self.bias.to(dtype)})
        return Model(
            nn.Sequential(nn.Flatten(), layer), input_shape=self.input_shape, classes=self.classes, bounds=None
        )

    def rows(self) -> list[tuple[str, str]]:
        if self.failure is not None:
            return [("recovered", f"no: {self.failure}"), ("queries", f"{self.queries:,}")]
        return [
            ("recovered", f"{self.weight.numel() + self.bias.numel()} parameters"),
            ("queries", f"{self.queries:,}"),
            ("largest error on fresh questions", f"{self.error:.1e} of the spread of the logits"),
        ]


def steal_regression(target: Target, *, seed: int = 0) -> StolenRegression:
    """Solve the equations log p(x) = Wx + b of random questions, and try the weights on fresh ones.

    Questions lie in the range of an input, nearer to its middle while answers are saturated. The weights are returned
    only if they answer fresh questions as the target does.

    >>> from modelkeep.core.access import Scores
    >>> _ = torch.manual_seed(0)
    >>> model = Model(nn.Linear(4, 3), input_shape=(4,), classes=3)
    >>> stolen = steal_regression(Scores(model))
    >>> stolen.recovered, stolen.error < 1e-3
    (True, True)
    """
    oracle, random = Oracle(target), np.random.default_rng(seed)
    failure: str | None = None
    error = math.nan
    solved: Array = np.empty((1, len(target.classes)))
    with measured(seed) as provenance:
        try:
            if oracle.width > WIDEST:
                raise Unrecoverable(f"it has {oracle.width:,} inputs, and {WIDEST:,} are as many as can be solved for")
            x, y = _ask(oracle, random, target.bounds)
            learnt = slice(_CHECKS, None)
            solved = np.asarray(np.linalg.lstsq(x[learnt], y[learnt], rcond=None)[0])
            error = float(np.abs(x[:_CHECKS] @ solved - y[:_CHECKS]).max() / max(float(y[:_CHECKS].std()), 1e-12))
            if error > RIGHT:
                raise Unrecoverable(f"its logits are not linear in its inputs (error {error:.1e} of their spread)")
        except (Unrecoverable, QueryBudget) as why:
            failure, solved = str(why).removesuffix("."), solved[-1:]
    return StolenRegression(
        provenance=provenance(),
        failure=failure,
        input_shape=tuple(target.input_shape),
        classes=tuple(target.classes),
        queries=oracle.queries,
        error=error,
        weight=torch.from_numpy(np.ascontiguousarray(solved[:-1].T)),
        bias=torch.from_numpy(solved[-1].copy()),
    )


def _ask(oracle: Oracle, random: np.random.Generator, bounds: tuple[float, float] | None) -> tuple[Array, Array]:
    """Random questions with a column of ones `(n, width + 1)` and their centred logits, as far out as can be read."""
    low, high = bounds if bounds is not None else (-1.0, 1.0)
    middle, reach = (low + high) / 2, (high - low) / 2
    shape = (_CHECKS + 2 * (oracle.width + 1), oracle.width)
    for halving in range(_HALVINGS):
        x = middle + reach * random.uniform(-1, 1, shape)
        try:
            oracle(x[:16], keep=False)  # a few first: the others are not asked where these say nothing
            oracle(x)
        except Unrecoverable:
            if halving == _HALVINGS - 1:
                raise
            reach /= 2
            continue
        break
    heard, y = oracle.heard()
    return np.concatenate([heard, np.ones((len(heard), 1))], axis=1), y
