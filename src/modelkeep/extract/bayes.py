"""The Bayes attack: the mean of all clean predictions that could have given an answer (Tang2024, section 3.4)."""

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
from modelkeep.core.errors import InputError, Remedy, bad_parameter
from modelkeep.core.method import declare, setting
from modelkeep.extract.attacks import Attack
from modelkeep.extract.knowledge import Knowledge
from modelkeep.extract.lookup import Lookup

Means = Literal["clean", "answers"]
CHUNK = 1 << 16  # entries of the table that are in memory at a time


@dataclass(frozen=True)
class TableAttack(Attack):
    """What the attacks share that draw a table of pairs (y, p(y)) around many means (Tang2024, equation 21).

    The paper draws around the "clean" predictions of the queries, an oracle (remark 5) for judging a defence; a real
    attacker has the "answers" themselves, or guesses (m, classes) of his own, such as the predictions of shadow models.
    """

    means: Means | torch.Tensor = setting("Around what the table is drawn.", default="clean")
    samples: int = setting("Draws around each mean.", default=20, at_least=1)
    precision: float | None = setting("Of the Dirichlet draws; 8 per class by default.", default=None, above=0)

    @property
    def table_source(self) -> str:
        """Around what the table is drawn."""
        return self.means if isinstance(self.means, str) else "given"

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
                "Only the owner of the clean model can draw around clean predictions:",
                remedy=Remedy("give clean=…, or means='answers'.", "give --means answers."),
            )
        return knowledge.clean


@declare(
    "extraction",
    "partial-bayes",
    extra="guard",
    access="scores",
    paper="Tang2024, equation 21",
    also=("pbayes",),
    kw_only=False,
)
class PartialBayes(TableAttack):
    """Takes the mean of all predictions that could have given an answer.

    Each clean yⱼ ~ Dir(mean, precision) is perturbed as the target would have done it. An answer is recovered as the
    mean of all yⱼ with ‖p(yⱼ) − ŷ‖₂ ≤ `tolerance`, or as the nearest where there is none.
    """

    tolerance: float = setting("How far p(y) may lie from the answer, in l2.", default=0.02, at_least=0, below=2)

    def recover(self, answers: torch.Tensor, knowledge: Knowledge) -> torch.Tensor:
        """The means of the matches."""
        if knowledge.nothing_is_hidden:
            return answers
        lookup = Lookup(answers, self.tolerance)
        with progress.task("looking through the table") as task:
            for clean, perturbed in self.table(answers, knowledge):
                lookup.add(clean, perturbed)
                task.advance(len(clean))
        return lookup.recover()


@dataclass(frozen=True)
class PerfectBayes(Attack):
    """The Bayes attack itself (Tang2024, equations 12 and 13): all `possible: (m, classes)` predictions are listed.

    They are equally likely, and the defence looks only at them. `simplex_grid` lists those of two or three classes.
    """

    possible: torch.Tensor = field(repr=False)
    tolerance: float = 0.0

    def recover(self, answers: torch.Tensor, knowledge: Knowledge) -> torch.Tensor:
        """The means of the matches."""
        perturb = knowledge.perturbation()
        lookup = Lookup(answers, self.tolerance)
        for clean in torch.split(self.possible, CHUNK):
            lookup.add(clean, perturb(clean, knowledge.questions[:0]))
        return lookup.recover()


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
