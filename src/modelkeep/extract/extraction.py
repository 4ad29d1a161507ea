"""Extraction: steal a model through its answers, and say how good the copy is and what it cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from pydantic import PlainSerializer, PlainValidator

from modelkeep.attack.transfer.proxy import RECIPE, Architecture
from modelkeep.core.data import Data
from modelkeep.core.errors import ResultError, bad_parameter
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

# A network is no figure: it is saved on its own, and a result that was read back has none.
Unstored = Annotated[
    Model | None,
    PlainSerializer(lambda model: None),
    PlainValidator(lambda value: value if isinstance(value, Model) else None),
]


@dataclass(frozen=True, kw_only=True, eq=False)
class Extraction(Result, kind="extraction"):
    """How good the stolen copy is, on test data that neither it nor the target was trained on.

    `accuracy` is the share of true labels that the substitute gives, `fidelity` the share of the target's own labels.
    `recovery_distance` is the mean ‖ỹ − y‖₂ between what the attacker learnt from and the clean predictions, where
    those are known; `means` says around what an attack of equation 21 drew its table ("clean": an oracle that only an
    evaluator has). The attack took `queries`; to judge it took `judging_queries` more where nobody gave the clean
    model. `cost` is that of the attack, in the currency of the price.
    """

    strategy: str
    attack: str
    defence: str
    means: str | None
    accuracy: Estimate
    target_accuracy: Estimate
    fidelity: Estimate
    recovery_distance: Estimate | None
    queries: int
    judging_queries: int
    cost: float | None
    model: Unstored = field(default=None, repr=False)

    @property
    def substitute(self) -> Model:
        """The stolen network."""
        if self.model is None:
            raise ResultError(
                "A result that was read from JSON holds no network. Load the one that was saved beside it."
            )
        return self.model

    def rows(self) -> list[tuple[str, str]]:
        drawn = "" if self.means is None else f", table drawn around the {self.means} predictions"
        rows = [
            ("attack", f"{self.strategy} + {self.attack}{drawn}"),
            ("defence", self.defence),
            ("fidelity to the target", str(self.fidelity)),
            ("accuracy of the copy", str(self.accuracy)),
            ("accuracy of the target", str(self.target_accuracy)),
        ]
        if self.recovery_distance is not None:
            rows.append(("distance to the clean predictions", str(self.recovery_distance)))
        judging = f", {self.judging_queries:,} more to judge the copy" if self.judging_queries else ""
        rows.append(("queries", f"{self.queries:,}{judging}"))
        if self.cost is not None:
            rows.append(("cost", f"{self.cost:,.2f}"))
        return rows

    def draw(self) -> Figure:
        """How the copy compares with the target."""
        from modelkeep.core import plots

        named = {
            "accuracy, target": self.target_accuracy,
            "accuracy, copy": self.accuracy,
            "fidelity of the copy": self.fidelity,
        }
        return plots.bars(named, title=f"{self.strategy} + {self.attack} against {self.defence}", x_label="share")


def extract(
    target: Target,
    strategy: Strategy,
    attack: Attack = NAIVE,
    *,
    test: Data,
    architecture: Architecture | None = None,
    recipe: Recipe = RECIPE,
    defence: Defence | None = None,
    clean: Model | None = None,
    price: float | None = None,
    seed: int,
) -> Extraction:
    """Ask the target, recover what its defence hid, train a substitute, and judge it on test data.

    Args:
        target: What is stolen from: `Scores(model)`, `Guarded(model, defence)`, `Asked(function, …)`, `Remote(url)`.
        strategy: What it is asked about: `Knockoff`, `AdaptiveKnockoff`, `JacobianAugmentation` or `Listed`.
        attack: How it is asked, and what is learnt from the answers.
        test: Examples with true labels, to judge the copy on.
        architecture: Of the substitute, as in `modelkeep.zoo.architectures`; without it a small one that fits.
        recipe: How the substitute is trained.
        defence: What the attacker believes to stand before the target, for attacks that adapt to it; a `Guarded`
            target tells.
        clean: The undefended model, where the evaluator has it: to measure the recovery and to judge without queries.
        price: The target's price of 1,000 queries.
        seed: For all that is random.

    >>> import torch
    >>> from torch import nn
    >>> from modelkeep.core.access import Scores
    >>> from modelkeep.extract.strategies import Knockoff
    >>> model = Model(nn.Linear(4, 3), input_shape=(4,), classes=3)
    >>> data = Data(torch.rand(60, 4), torch.zeros(60, dtype=torch.int64), model.classes)
    >>> found = extract(Scores(model), Knockoff(data, 50), test=data, clean=model, seed=0)
    >>> found.queries, found.fidelity.n
    (50, 60)
    """
    if price is not None and not price >= 0:
        raise bad_parameter("extract", "price", "None or a number of at least 0", price)
    with measured(seed, None if clean is None else clean.fingerprint(), test.fingerprint()) as provenance:
        steal = Theft(target, strategy, attack, architecture, recipe, defence, clean, seed)
        harvest, queries = steal.ask()
        recovered, distance = steal.recover(harvest)
        substitute = steal.learn(harvest.questions, recovered)
        judge = Judge(target, test, clean)
        return Extraction(
            provenance=provenance(),
            strategy=strategy.name,
            attack=attack.name,
            defence=steal.defence_name,
            means=attack.means,
            accuracy=judge.accuracy(substitute),
            target_accuracy=judge.target_accuracy,
            fidelity=judge.fidelity(substitute),
            recovery_distance=distance,
            queries=queries,
            judging_queries=judge.queries,
            cost=None if price is None else price * queries / 1000,
            model=substitute,
        )
