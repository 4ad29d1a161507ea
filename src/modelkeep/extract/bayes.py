"""The Bayes attack: of all clean predictions that could have given an answer, the mean (sections 3.4 and B.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from math import comb
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from modelkeep.core import progress
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.extract.lookup import Lookup
from modelkeep.extract.recoveries import Knowledge

Means = Literal["clean", "answers"]
CHUNK = 1 << 16  # entries of the table that are in memory at a time


@dataclass(frozen=True)
class PartialBayes:
    """The partial Bayes attack: its table holds `samples` draws around each of many `means` (equation 21).

    Each clean yⱼ ~ Dir(mean, precision) is perturbed as the target would have done it, and an answer is recovered as
    the mean of all yⱼ with ‖p(yⱼ) − ŷ‖₂ ≤ `tolerance`, or as the nearest where there is none. The paper draws around
    the "clean" predictions of the queries, an oracle (remark 5) for judging a defence; a real attacker has the
    "answers" themselves, or guesses (m, classes) of his own, such as the predictions of shadow models. `precision` is
    8 per class, as in the paper, where it is not given.
    """

    means: Means | torch.Tensor = "clean"
    samples: int = 20
    precision: float | None = None
    tolerance: float = 0.02

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise bad_parameter("PartialBayes", "samples", "at least 1", self.samples)
        if self.precision is not None and not self.precision > 0:
            raise bad_parameter("PartialBayes", "precision", "None or a number above 0", self.precision)
        if not 0 <= self.tolerance < 2:
            raise bad_parameter("PartialBayes", "tolerance", "from 0 to below 2", self.tolerance)

    def __call__(self, answers: torch.Tensor, knowledge: Knowledge) -> torch.Tensor:
        if knowledge.nothing_is_hidden:
            return answers
        lookup = Lookup(answers, self.tolerance)
        with progress.task("looking through the table") as task:
            for clean, perturbed in self.table(answers, knowledge):
                lookup.add(clean, perturbed)
                task.advance(len(clean))
        return lookup.recovered()

    def table(self, answers: torch.Tensor, knowledge: Knowledge) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The pairs (y, p(y)) of equation 21, some at a time.

        A defence that looks at inputs sees, for each draw, the question whose prediction it was drawn around.
        """
        means = self._means(answers, knowledge)
        precision = self.precision if self.precision is not None else 8.0 * means.shape[1]
        random = np.random.default_rng(knowledge.seed)
        perturb = knowledge.perturbation()
        for part in torch.split(torch.arange(len(means)), max(1, CHUNK // self.samples)):
            index = part.repeat_interleave(self.samples)
            drawn = random.standard_gamma(precision * means[index].double().numpy())
            clean = torch.from_numpy(drawn / drawn.sum(axis=1, keepdims=True)).float()
            yield clean, perturb(clean, knowledge.questions[index % len(knowledge.questions)])

    def _means(self, answers: torch.Tensor, knowledge: Knowledge) -> torch.Tensor:
        if isinstance(self.means, torch.Tensor):
            return self.means
        if self.means == "answers":
            return answers
        if knowledge.clean is None:
            raise InputError(
                "Only who has the clean model can draw around clean predictions: give clean=…, or means='answers'."
            )
        return knowledge.clean


@dataclass(frozen=True)
class PerfectBayes:
    """The Bayes attack itself (equations 12 and 13), where all `possible: (m, classes)` predictions can be listed.

    They are equally likely, and the defence looks only at them. `simplex_grid` lists those of two or three classes.
    """

    possible: torch.Tensor = field(repr=False)
    tolerance: float = 0.0

    def __call__(self, answers: torch.Tensor, knowledge: Knowledge) -> torch.Tensor:
        perturb = knowledge.perturbation()
        lookup = Lookup(answers, self.tolerance)
        for clean in torch.split(self.possible, CHUNK):
            lookup.add(clean, perturb(clean, knowledge.questions[:0]))
        return lookup.recovered()


def simplex_grid(classes: int, steps: int) -> torch.Tensor:
    """All predictions `(m, classes)` whose confidences are whole multiples of 1 / `steps`.

    >>> simplex_grid(2, 2)
    tensor([[0.0000, 1.0000],
            [0.5000, 0.5000],
            [1.0000, 0.0000]])
    """
    if comb(steps + classes - 1, classes - 1) > 10**7:
        raise bad_parameter("simplex_grid", "steps", "few enough for ten million predictions", steps)
    # Stars and bars: classes - 1 bars among steps + classes - 1 places divide the steps among the classes.
    places = combinations(range(steps + classes - 1), classes - 1)
    bars: NDArray[Any] = np.array(list(places), dtype=np.int64)
    edges = np.pad(bars, ((0, 0), (1, 1)), constant_values=((0, 0), (-1, steps + classes - 1)))
    return torch.from_numpy((np.diff(edges, axis=1) - 1) / steps).float()
