"""The curve of fidelity against queries: how good a copy a thief would have by now."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelkeep.attack.transfer.proxy import RECIPE, Architecture
from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, measured
from modelkeep.extract.attacks import NAIVE, Attack
from modelkeep.extract.strategies import Strategy
from modelkeep.extract.target import Target
from modelkeep.extract.theft import Judge, Theft
from modelkeep.guard.defence import Defence
from modelkeep.training import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, eq=False)
class FidelityCurve(Result, kind="fidelity-curve"):
    """The `fidelity` and the `accuracy` of copies that learnt from the first `queries` answers."""

    strategy: str
    attack: str
    defence: str
    queries: tuple[int, ...]
    fidelity: tuple[Estimate, ...]
    accuracy: tuple[Estimate, ...]

    def rows(self) -> list[tuple[str, str]]:
        at = zip(self.queries, self.fidelity, strict=True)
        return [
            ("attack", f"{self.strategy} + {self.attack}"),
            ("defence", self.defence),
            *((f"fidelity after {queries:,} queries", str(fidelity)) for queries, fidelity in at),
        ]

    def draw(self) -> Figure:
        """Fidelity and accuracy against queries, in the bands of their intervals."""
        from modelkeep.core import plots

        return plots.curve(
            self.queries,
            {"fidelity to the target": self.fidelity, "accuracy": self.accuracy},
            x_label="queries",
            y_label="share of the test data",
        )

    def for_dashboard(self) -> str:
        """The JSON that the gateway's dashboard reads: what a thief's copy would be worth after so many queries."""
        return json.dumps({"queries": list(self.queries), "fidelity": [each.value for each in self.fidelity]})


def fidelity_curve(
    target: Target,
    strategy: Strategy,
    attack: Attack = NAIVE,
    *,
    budgets: Sequence[int],
    test: Data,
    architecture: Architecture | None = None,
    recipe: Recipe = RECIPE,
    defence: Defence | None = None,
    clean: Model | None = None,
    seed: int,
) -> FidelityCurve:
    """Ask once, and train a copy on the first answers, up to each of the `budgets`: numbers of questions.

    An attack that asks each question several times takes so many times more queries, and the curve says so. For the
    other arguments see `extract`.
    """
    wanted = sorted(set(budgets))
    if not wanted or wanted[0] < 2:
        raise bad_parameter("fidelity_curve", "budgets", "one or more numbers of at least 2", budgets)
    with measured(seed, None if clean is None else clean.fingerprint(), test.fingerprint()) as provenance:
        theft = Theft(target, strategy, attack, architecture, recipe, defence, clean, seed)
        harvest, queries = theft.ask()
        if wanted[-1] > len(harvest.questions):
            allowed = f"at most {len(harvest.questions)}, as many as the strategy asks"
            raise bad_parameter("fidelity_curve", "budgets", allowed, budgets)
        judge = Judge(target, test, clean)
        fidelity, accuracy = [], []
        with progress.task("fidelity against queries", sum(wanted)) as task:
            for count in wanted:
                first = harvest.first(count)
                copied = theft.learn(first.questions, theft.recover(first)[0])
                fidelity.append(judge.fidelity(copied))
                accuracy.append(judge.accuracy(copied))
                task.advance(count, f"{fidelity[-1].value:.3f} after {count:,}")
        return FidelityCurve(
            provenance=provenance(),
            strategy=strategy.name,
            attack=attack.name,
            defence=theft.defence_name,
            queries=tuple(round(count * queries / len(harvest.questions)) for count in wanted),
            fidelity=tuple(fidelity),
            accuracy=tuple(accuracy),
        )
