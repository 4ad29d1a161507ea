"""AuditEpsilon: a lower bound on the ε of a training, from one run with canaries (Steinke2023)."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch

from modelkeep.core import plots
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, measured
from modelkeep.privacy.membership.attack import log_odds, probabilities
from modelkeep.privacy.private_training.canaries import GradientCanaries, mislabel, toss
from modelkeep.privacy.private_training.dp_sgd import DPSGD, default_delta
from modelkeep.privacy.private_training.one_run_bound import prove_epsilon
from modelkeep.privacy.shadows import join
from modelkeep.training import Recipe, cross_entropy, fit
from modelkeep.training.part import training_part

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Kind = Literal["gradients", "records"]
SHARES = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
"""The shares of the canaries about which the auditor guesses. Each is tested at a sixth of the risk, so that the best
of them may be taken: few guesses suit a signal in the tails, many a signal in all canaries."""


@dataclass(frozen=True)
class Guesses:
    """How many guesses were made and how many were right; `epsilon` is what they prove at a sixth of the risk."""

    made: int
    right: int
    epsilon: float


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditedEpsilon(Result, kind="audited-epsilon"):
    """What the guesses about canaries prove about the ε of a training.

    `epsilon.low` is exceeded by the true ε at the level of the estimate. Its value is that of the guesses' own accuracy
    and its upper end is infinite: no audit bounds ε from above. `claimed` is the ε that the accounting gives, if any.
    """

    canaries: int
    canary_kind: str
    delta: float
    claimed: float | None
    epsilon: Estimate
    guesses: tuple[Guesses, ...]

    @property
    def contradicted(self) -> bool:
        """Whether the claimed ε is refuted: then the training does not do what its accounting assumes."""
        return self.claimed is not None and self.epsilon.low > self.claimed

    @property
    def command(self) -> str:
        """The command that makes this result again; there is none for a plain training."""
        training = dict(self.provenance.settings.get("training", {}))
        if training.pop("private-training", None) is None:
            return ""
        own = {**training, **{k: v for k, v in self.provenance.settings.items() if k != "training"}}
        told = [f"--{name.replace('_', '-')} {value}" for name, value in own.items() if value not in (None, [], ())]
        verb = "modelkeep train-privately MODEL --data DATA --audit one-run"
        return " ".join([verb, *told, f"--seed {self.provenance.seed}"])

    def rows(self) -> list[tuple[str, str]]:
        best = _best(self.guesses)
        told = f"above {self.epsilon.low:.3g} at {100 * self.epsilon.level:g} % confidence (δ = {self.delta:.2g})"
        claim = "no guarantee is claimed"
        if self.claimed is not None:
            claim = f"{self.claimed:.3g}{', which is refuted' if self.contradicted else ''}"
        return [
            ("ε, measured", told if self.epsilon.low > 0 else "nothing is proved: the guesses are as good as a coin"),
            ("ε, claimed", claim),
            ("canaries", f"{self.canaries} {self.canary_kind}, each in by a coin of its own"),
            ("guesses", f"{best.right} of {best.made} right; no guess about the others"),
        ]

    def draw(self) -> Figure:
        """What is proved with each number of guesses, and what is claimed."""
        figure = plots.figure(5.0, 3.6)
        axis = plots.axes(figure, "ε that the guesses prove", "guesses", "ε")
        axis.plot([g.made for g in self.guesses], [g.epsilon for g in self.guesses], "o-", color=plots.PALETTE[0], ms=4)
        if self.claimed is not None:
            axis.axhline(self.claimed, color=plots.PALETTE[1], ls="--", label=f"claimed {self.claimed:.3g}")
            plots.legend(figure, axis)
        axis.set_ylim(bottom=0)
        return figure


@declare("privacy-audit", "one-run", access="weights", paper="Steinke2023", extra="private")
class AuditEpsilon:
    """A lower bound on the ε of a training, from one run with canaries that are in it or not by a coin.

    The network is trained again as a copy, from the weights that the model has; the model stays as it is. "gradients"
    are canaries with the largest gradient that the clipping lets pass, and an attacker who sees every step: they test
    whether a private training does what it promises. "records" are mislabelled records, and an attacker who asks the
    trained model: they show what one can find out. By default a private training gets the former, a plain one the
    latter.
    """

    cheap: ClassVar[dict[str, Any]] = {"canaries": 4, "training": Recipe(steps=2, batch_size=4)}

    training: DPSGD | Recipe = setting("How it is trained: privately, or plainly by a recipe.", default_factory=DPSGD)
    canaries: int = setting("Examples that are in by a coin.", default=1000, at_least=2)
    kind: Kind | None = setting("What a canary is.", default=None)
    confidence: float = setting("How sure the bound is.", default=0.95, above=0, below=1)

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> AuditedEpsilon:
        """Train a copy of `model` on `data` with canaries, and guess which were in."""
        model.require_fit(data)
        kind = self.kind or ("gradients" if isinstance(self.training, DPSGD) else "records")
        inside = toss(self.canaries, seed)
        with measured(seed, model.fingerprint(), data.fingerprint()) as provenance:
            score = self._score_gradients if kind == "gradients" else self._score_records
            scores, claimed, delta = score(copy.deepcopy(model), data, inside, seed)
            found = guess(scores, inside, delta=delta, confidence=self.confidence)
            best = _best(found)
            own = math.log((best.right + 0.5) / (best.made - best.right + 0.5))
            return AuditedEpsilon(
                provenance=provenance(),
                canaries=self.canaries,
                canary_kind=kind,
                delta=delta,
                claimed=claimed,
                epsilon=Estimate(max(own, best.epsilon), best.epsilon, math.inf, best.made, self.confidence),
                guesses=found,
            )

    def _score_gradients(
        self, model: Model, data: Data, inside: torch.Tensor, seed: int
    ) -> tuple[torch.Tensor, float | None, float]:
        if not isinstance(self.training, DPSGD):
            raise InputError('Canaries among clipped gradients need a private training. Give kind="records".')
        budget = self.training.calibrate(len(data))
        recipe = self.training.recipe(budget.steps)
        with training_part(model, recipe) as parameters:
            trained = sum(parameter.numel() for parameter in parameters)
        plain = self.training.objective(budget)
        objective = GradientCanaries.spread(model, trained, plain, inside, budget.rate, seed)
        fit(model, data, objective, recipe, seed=seed)
        return objective.scores.cpu(), budget.epsilon, budget.delta

    def _score_records(
        self, model: Model, data: Data, inside: torch.Tensor, seed: int
    ) -> tuple[torch.Tensor, float | None, float]:
        canaries, rest = mislabel(data, self.canaries, seed)
        learned = join([rest, canaries.take(torch.nonzero(inside).flatten())])
        claimed, delta = None, default_delta(len(learned))
        if isinstance(self.training, DPSGD):
            done = self.training(model, learned, seed=seed)
            claimed, delta = done.epsilon, done.delta
        else:
            fit(model, learned, cross_entropy, self.training, seed=seed)
        return log_odds(probabilities(model, canaries), canaries.y), claimed, delta


def guess(
    scores: torch.Tensor, inside: torch.Tensor, *, delta: float = 0.0, confidence: float = 0.95
) -> tuple[Guesses, ...]:
    """Guess "in" about the highest scores and "out" about as many of the lowest, for each of `SHARES`."""
    order = scores.argsort(descending=True, stable=True)
    m, found = len(scores), []
    for made in sorted({2 * max(1, round(share * m / 2)) for share in SHARES if share * m >= 2}):
        half = min(made, m) // 2
        right = int(inside[order[:half]].sum() + (~inside[order[m - half :]]).sum())
        proved = prove_epsilon(
            canaries=m,
            guesses=2 * half,
            right=right,
            delta=delta,
            confidence=1 - (1 - confidence) / len(SHARES),
        )
        found.append(Guesses(2 * half, right, proved))
    return tuple(found)


def _best(guesses: tuple[Guesses, ...]) -> Guesses:
    return max(guesses, key=lambda each: (each.epsilon, each.right / each.made))
