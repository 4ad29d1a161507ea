"""DP-SGD as a method: calibrate the noise to a wanted ε, train in the one loop, and say what is guaranteed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from modelkeep.core import plots
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.guarantee import Guarantee
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, measured
from modelkeep.privacy.private_training.accounting import Accountant, advantage_bounds, epsilon_of, noise_for
from modelkeep.privacy.private_training.objective import PrivateGradients
from modelkeep.training import SGD, Fitted, Recipe, fit

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivatelyTrained(Result, kind="privately-trained"):
    """A training with a guarantee: (ε, δ)-differential privacy against the addition or removal of one example.

    It holds for the weights. It does not cover the history of the training, nor the choice of settings on the same
    data, and it needs a secret seed: who knows the seed knows the noise.
    """

    epsilon: float
    delta: float
    noise: float
    clip: float
    rate: float
    steps: int
    accountant: str
    accuracy: Estimate | None
    training: Fitted = field(repr=False)

    @property
    def advantage_bounds(self) -> tuple[float, float]:
        """What no membership attack on the weights can exceed: e^ε − 1, and the tight bound."""
        return advantage_bounds(self.epsilon, self.delta)

    def rows(self) -> list[tuple[str, str]]:
        loose, tight = self.advantage_bounds
        return [
            ("guarantee", f"ε = {self.epsilon:.3g} at δ = {self.delta:.2g}, by {self.accountant.upper()} accounting"),
            ("noise and clip", f"{self.noise:.4g} × {self.clip:g}"),
            ("sampling", f"{self.steps} steps, each example with probability {self.rate:.3g}"),
            (
                "advantage of any attack",
                f"at most {tight:.3g} (e^ε − 1 {'is vacuous' if loose >= 1 else f'= {loose:.3g}'})",
            ),
            *([("held-out accuracy", str(self.accuracy))] if self.accuracy is not None else []),
            ("not covered", "the history, and settings that were chosen on the same data; the seed must stay secret"),
        ]

    def draw(self) -> Figure:
        """ε over the steps that were taken."""
        figure = plots.figure(5.0, 3.6)
        axis = plots.axes(figure, f"ε at δ = {self.delta:.2g}", "step", "ε")
        marks = sorted({max(1, round(self.steps * share / 10)) for share in range(1, 11)})
        spent = [epsilon_of(noise=self.noise, rate=self.rate, steps=n, delta=self.delta) for n in marks]
        axis.plot(marks, spent, color=plots.PALETTE[0], marker="o", ms=4)
        return figure


@dataclass(frozen=True)
class Budget:
    """What a training may cost and how it is spent: the noise over the clip, the sampling rate and the steps."""

    epsilon: float
    delta: float
    noise: float
    rate: float
    steps: int


def default_delta(n: int) -> float:
    """The δ where none is given: a tenth of one over the number of examples."""
    return 1 / (10 * n)


@declare("private-training", "dp-sgd", access="weights", paper="Abadi2016; Leino2022, appendix C.1", extra="private")
class DPSGD:
    """Training with a differential privacy guarantee: gradients clipped per example, and Gaussian noise.

    The model is trained in place. Each step draws every example with the same probability (Poisson sampling), cuts
    its gradient to the norm `clip` and adds noise that is calibrated so that the whole run stays within `epsilon`.
    The weights that it starts with are public: none of them may come from the private data. With `trainable`, only
    those parts of the network are trained; the others, learned on public data, cost no ε and get no noise.
    """

    epsilon: float = setting("The privacy loss that the whole training may cost.", default=4.0, above=0)
    delta: float | None = setting("The probability of more; without it, 1 / (10 n).", default=None, above=0, below=1)
    clip: float = setting("The largest norm of an example's gradient.", default=1.0, above=0)
    batch_size: int = setting("Examples per step, on average.", default=256, at_least=1)
    epochs: int = setting("Passes over the data, on average.", default=20, at_least=1)
    learning_rate: float = setting("Length of a step.", default=0.5, above=0)
    momentum: float = setting("Share of the last step that is kept.", default=0.9, at_least=0, below=1)
    accountant: Accountant = setting("How ε is composed: numerically, or by Rényi divergences.", default="prv")
    trainable: tuple[str, ...] = setting("The parts that are trained; without any, all.", default=())

    def __call__(
        self,
        model: Model,
        data: Data,
        *,
        seed: int = 0,
        held_out: Data | None = None,
        checkpoint: str | Path | None = None,
    ) -> PrivatelyTrained:
        """Train on `data`, and measure the accuracy on `held_out` where it is given."""
        if self.batch_size > len(data):
            raise InputError(
                f"A batch of {self.batch_size} is larger than '{data.name}' with its {len(data)} examples."
            )
        budget = self.calibrate(len(data))
        objective, recipe = self.objective(budget), self.recipe(budget.steps)
        with measured(seed, model.fingerprint(), data.fingerprint()) as provenance:
            fitted = fit(model, data, objective, recipe, seed=seed, held_out=held_out, checkpoint=checkpoint)
            model.card = replace(model.card, guarantee=Guarantee(budget.epsilon, budget.delta, "dp-sgd"))
            return PrivatelyTrained(
                provenance=replace(provenance(), model=fitted.provenance.model),
                epsilon=budget.epsilon,
                delta=budget.delta,
                noise=budget.noise,
                clip=self.clip,
                rate=budget.rate,
                steps=budget.steps,
                accountant=self.accountant,
                accuracy=fitted.history[fitted.best].accuracy,
                training=fitted,
            )

    def calibrate(self, n: int) -> Budget:
        """The noise that keeps a training on `n` examples within `epsilon`."""
        delta = self.delta if self.delta is not None else default_delta(n)
        rate, steps = self.batch_size / n, ceil(n / self.batch_size) * self.epochs
        noise = noise_for(self.epsilon, rate=rate, steps=steps, delta=delta, accountant=self.accountant)
        spent = epsilon_of(noise=noise, rate=rate, steps=steps, delta=delta, accountant=self.accountant)
        return Budget(spent, delta, noise, rate, steps)

    def objective(self, budget: Budget) -> PrivateGradients:
        """Clipped gradients with the noise of the budget."""
        return PrivateGradients(self.clip, budget.noise, self.batch_size)

    def recipe(self, steps: int) -> Recipe:
        """The training: no early stopping, whose choice of a step would have to be paid for as well."""
        return Recipe(
            steps=steps,
            batch_size=self.batch_size,
            optimizer=SGD(momentum=self.momentum),
            learning_rate=self.learning_rate,
            sampling="poisson",
            trainable=self.trainable,
        )
