"""Extraction: steal a model through its answers, and say how good the copy is and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import PlainSerializer, PlainValidator

from modelkeep.attack.transfer.proxy import Architecture
from modelkeep.core import progress
from modelkeep.core.data import Data
from modelkeep.core.errors import ResultError, bad_parameter
from modelkeep.core.method import command_of, declaration_of, python_of, settings_of
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Provenance, Result, measured
from modelkeep.extract.attacks import Attack, Naive
from modelkeep.extract.curve import FidelityCurve
from modelkeep.extract.strategies import Knockoff, Strategy
from modelkeep.extract.target import Target
from modelkeep.extract.theft import Judge, Theft
from modelkeep.guard.defence import Defence
from modelkeep.training import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KNOCKOFF, NAIVE = Knockoff(), Naive()

# A network is saved in a file of its own, and a result that was read back has none.
_Unstored = Annotated[
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
    evaluator has). The attack took `queries`; to judge it took `judging_queries` more where the clean model was not
    given. `cost` is that of the attack, in the currency of the price.
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
    model: _Unstored = field(default=None, repr=False)

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


@dataclass(frozen=True)
class Extract:
    """Ask a target, recover what its defence hid, train a substitute, and judge it on test data.

    Args:
        pool: The inputs that questions are chosen from. Their labels may be of other classes.
        strategy: What the target is asked about: `Knockoff`, `AdaptiveKnockoff`, `JacobianAugmentation` or `Listed`.
        attack: How it is asked, and what is learnt from the answers.
        architecture: Of the substitute, as in `modelkeep.zoo.architectures`; without it a small one that fits.
        recipe: How the substitute is trained; without one until it has converged (`recipe_until_converged`).
        defence: The defence that the attacker assumes, for attacks that adapt to it; a `Guarded` target tells.
        clean: The undefended model, where the evaluator has it: to measure the recovery and to judge without queries.
        price: The target's price of 1,000 queries.

    >>> import torch
    >>> from torch import nn
    >>> from modelkeep.core.access import Scores
    >>> model = Model(nn.Linear(4, 3), input_shape=(4,), classes=3)
    >>> data = Data(torch.rand(60, 4), torch.zeros(60, dtype=torch.int64), model.classes)
    >>> found = Extract(data, Knockoff(50), clean=model)(Scores(model), data, seed=0)
    >>> found.queries, found.fidelity.n
    (50, 60)
    """

    pool: Data = field(repr=False)
    strategy: Strategy = KNOCKOFF
    attack: Attack = NAIVE
    _: KW_ONLY
    architecture: Architecture | None = None
    recipe: Recipe | None = None
    defence: Defence | None = None
    clean: Model | None = None
    price: float | None = None

    def __post_init__(self) -> None:
        if self.price is not None and not self.price >= 0:
            raise bad_parameter("Extract", "price", "None or a number of at least 0", self.price)

    def __call__(self, target: Target, test: Data, *, seed: int = 0) -> Extraction:
        """Copy the `target`: `Scores(model)`, `Labelled(model)`, `Guarded(model, defence)`, `Asked(…)`, `Remote(url)`.

        `test` has true labels, to judge the copy on.
        """
        with self._measured(test, seed) as provenance:
            theft = Theft(self, target, seed)
            harvest, queries = theft.ask()
            recovered, distance = theft.recover(harvest)
            substitute = theft.learn(harvest.questions, recovered)
            judge = Judge(target, test, self.clean)
            return Extraction(
                provenance=self._record(provenance(), theft.defence),
                strategy=self.strategy.name,
                attack=self.attack.name,
                defence=theft.defence_name,
                means=self.attack.table_source,
                accuracy=judge.accuracy(substitute),
                target_accuracy=judge.target_accuracy,
                fidelity=judge.fidelity(substitute),
                recovery_distance=distance,
                queries=queries,
                judging_queries=judge.queries,
                cost=None if self.price is None else self.price * queries / 1000,
                model=substitute,
            )

    def curve(self, target: Target, test: Data, *, budgets: Sequence[int], seed: int = 0) -> FidelityCurve:
        """Ask once, and train a copy on the first answers, up to each of the `budgets`: numbers of questions.

        An attack that asks each question several times takes as many times more queries, and the curve says so.
        """
        wanted = sorted(set(budgets))
        if not wanted or wanted[0] < 2:
            raise bad_parameter("Extract.curve", "budgets", "one or more numbers of at least 2", budgets)
        with self._measured(test, seed) as provenance:
            theft = Theft(self, target, seed)
            harvest, queries = theft.ask()
            if wanted[-1] > len(harvest.questions):
                allowed = f"at most {len(harvest.questions)}, as many as the strategy asks"
                raise bad_parameter("Extract.curve", "budgets", allowed, budgets)
            judge = Judge(target, test, self.clean)
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
                strategy=self.strategy.name,
                attack=self.attack.name,
                defence=theft.defence_name,
                queries=tuple(round(count * queries / len(harvest.questions)) for count in wanted),
                fidelity=tuple(fidelity),
                accuracy=tuple(accuracy),
            )

    def _measured(self, test: Data, seed: int) -> AbstractContextManager[Callable[[], Provenance]]:
        if self.clean is None:
            return measured(seed, None, test.fingerprint())
        return measured(seed, self.clean.fingerprint(), test.fingerprint(), self.clean.warnings)

    def _record(self, provenance: Provenance, defence: Defence | None) -> Provenance:
        """The provenance with what repeats this extraction; as it is where only Python can."""
        parts: dict[str, Any] = {"attack": self.attack, "strategy": self.strategy, "defence": defence}
        declared = {option: part for option, part in parts.items() if declaration_of(part) is not None}
        if "attack" not in declared or "strategy" not in declared:
            return provenance
        options = [command_of(self.attack)]
        for option in ("strategy", "defence"):
            if option in declared:
                options += [f"--{option} {declared[option].name}", command_of(declared[option])]
        return replace(
            provenance,
            method=f"extract/{self.attack.name}",
            settings={option: {"name": part.name, **settings_of(part)} for option, part in declared.items()},
            python=f"Extract(pool, {python_of(self.strategy)}, {python_of(self.attack)})",
            options=" ".join(filter(None, options)),
        )
