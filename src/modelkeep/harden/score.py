"""The score of a defence: what an attack finds that ignores it, and what one finds that knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from modelkeep.attack.base import BoundedAttack
from modelkeep.core import plots, progress
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, measured
from modelkeep.harden.adversarial import PGDTraining
from modelkeep.training import Step

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

Verdict = Literal["holds", "does not hold", "unclear"]
_WORTHWHILE = 0.1
"""The gain in accuracy under attack below which a defence is not worth its name."""


@dataclass(frozen=True)
class DefendedModel:
    """A defended model, and what an attacker who knows the defence differentiates instead of it.

    `adaptive` is made with `modelkeep.attack.bpda` where the defence has no useful gradient and with `eot` where it is
    random; None is for a defence that is nothing but other weights.
    """

    model: Model
    adaptive: Model | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored(Result, kind="scored"):
    """How a defence stands. All are accuracies of the defended model, but `undefended`: the other one's, attacked.

    `ignoring` is under inputs made for the undefended network and `adaptive` under those made for the defended one;
    the attacker may use either, so the lower of the two counts for the verdict.
    """

    attack: str
    norm: str
    radius: float
    undefended: Estimate
    clean: Estimate
    ignoring: Estimate
    adaptive: Estimate
    health: tuple[str, ...]
    verdict: Verdict

    def rows(self) -> list[tuple[str, str]]:
        return [
            ("attack", f"{self.attack} {self.norm}, radius {self.radius:g}"),
            ("undefended, attacked", str(self.undefended)),
            ("defended, clean", str(self.clean)),
            ("attack ignores the defence", str(self.ignoring)),
            ("attack knows the defence", str(self.adaptive)),
            ("health", "; ".join(self.health) or "nothing suspicious"),
            ("verdict", self.verdict),
        ]

    def draw(self) -> Figure:
        """The four accuracies."""
        named = {
            "undefended, attacked": self.undefended,
            "defended, clean": self.clean,
            "attack ignores the defence": self.ignoring,
            "attack knows the defence": self.adaptive,
        }
        return plots.bars(named, title=self.verdict, x_label="accuracy")


@dataclass(frozen=True, kw_only=True, eq=False)
class Scoreboard(Result, kind="scoreboard"):
    """Several defences against the same attacks on the same data, by name."""

    clean: Estimate
    attacked: Estimate
    scores: dict[str, Scored]

    def rows(self) -> list[tuple[str, str]]:
        return [
            ("undefended", f"clean {self.clean}, attacked {self.attacked}"),
            *((name, f"clean {s.clean}, attacked {s.adaptive}: {s.verdict}") for name, s in self.scores.items()),
        ]

    def table(self) -> Table:
        """A row per defence; the base's two columns would hide what is compared."""
        from rich.table import Table

        table = Table("defence", "clean", "attack ignores it", "attack knows it", "verdict", title="Scoreboard")
        table.add_row("none", f"{self.clean.value:.3f}", "", f"{self.attacked.value:.3f}", "")
        for name, score in self.scores.items():
            accuracies = (f"{each.value:.3f}" for each in (score.clean, score.ignoring, score.adaptive))
            table.add_row(name, *accuracies, score.verdict)
        return table

    def draw(self) -> Figure:
        """The accuracy of each under an attack that knows it."""
        knowing = {f"{name}: {score.verdict}": score.adaptive for name, score in self.scores.items()}
        return plots.bars({"none": self.attacked, **knowing}, x_label="accuracy under an attack that knows the defence")


def score(
    undefended: Model,
    defence: DefendedModel | Model,
    data: Data,
    *,
    attack: BoundedAttack,
    seed: int = 0,
) -> Scored:
    """How the defence stands against an attack that ignores it and against one that knows it.

    Args:
        undefended: The network without the defence, to compare with.
        defence: The defended model, with what a knowing attacker differentiates where that is another one.
        data: Examples with their true labels, which neither network was trained on.
        attack: What attacks both networks: `PGD(radius=0.1)`, or `Standard(radius=0.1)`, which finds more.
        seed: For all that is random.

    >>> from torch import nn
    >>> from modelkeep.attack import PGD
    >>> data = Data(torch.linspace(0, 1, 100)[:, None], torch.arange(100) // 50, ("low", "high"))
    >>> model = Model(nn.Linear(1, 2), input_shape=(1,), classes=data.classes)
    >>> model.module.load_state_dict({"weight": torch.tensor([[-1.0], [1.0]]), "bias": torch.tensor([0.5, -0.5])})
    <All keys matched successfully>
    >>> same = score(model, model, data, attack=PGD(radius=0.3))
    >>> same.undefended.value == same.adaptive.value == 0.4
    True
    """
    return scoreboard(undefended, {"": defence}, data, attack=attack, seed=seed).scores[""]


def scoreboard(
    undefended: Model,
    defences: Mapping[str, DefendedModel | Model],
    data: Data,
    *,
    attack: BoundedAttack,
    seed: int = 0,
) -> Scoreboard:
    """The `score` of several defences of one network, which is attacked only once."""
    if not defences:
        raise bad_parameter("scoreboard", "defences", "at least one named defence", dict(defences))
    with (
        measured(seed, undefended.fingerprint(), data.fingerprint()) as provenance,
        progress.task("defences", len(defences) + 1) as task,
    ):
        base = attack(undefended, data, seed=seed)
        transferred = _strongest(undefended, data, attack, seed)
        task.advance()
        scores = {}
        for name, given in defences.items():
            defence = given if isinstance(given, DefendedModel) else DefendedModel(given)
            deployed, knowing = defence.model, defence.adaptive or defence.model
            with measured(seed, deployed.fingerprint(), data.fingerprint()) as own:
                found = attack(knowing, data, seed=seed)
                ignoring = _accuracy(deployed, transferred, data.y, seed)
                adaptive = _accuracy(deployed, found.adversarial, data.y, seed)
                if adaptive.value > found.robust_accuracy.value:
                    # A random model takes back what is only just wrong, so the attacker goes as far as the ball allows.
                    furthest = _strongest(knowing, data, attack, seed)
                    adaptive = _lower(adaptive, _accuracy(deployed, furthest, data.y, seed))
                # An attacker who attacks another model in its place knows that it is random.
                random = defence.adaptive is not None
                health = tuple(note for note in found.health if not (random and note.startswith("the model is random")))
                clean = _accuracy(deployed, data.x, data.y, seed)
                lower = _lower(ignoring, adaptive)
                scores[name] = Scored(
                    provenance=own(),
                    attack=found.attack,
                    norm=attack.norm,
                    radius=attack.radius,
                    undefended=base.robust_accuracy,
                    clean=clean,
                    ignoring=ignoring,
                    adaptive=adaptive,
                    health=health,
                    verdict=useful(verdict(base.robust_accuracy, lower, health), clean, data),
                )
            task.advance()
        return Scoreboard(
            provenance=provenance(), clean=base.clean_accuracy, attacked=base.robust_accuracy, scores=scores
        )


def verdict(undefended: Estimate, defended: Estimate, health: tuple[str, ...] = ()) -> Verdict:
    """Whether the accuracy under attack is better than without the defence, as far as the intervals tell.

    An attack that has reason to doubt itself cannot show that a defence holds.

    >>> verdict(Estimate.rate(5, 200), Estimate.rate(90, 200))
    'holds'
    >>> verdict(Estimate.rate(5, 200), Estimate.rate(90, 200), ("not converged",))
    'unclear'
    >>> verdict(Estimate.rate(5, 200), Estimate.rate(6, 200))
    'does not hold'
    >>> verdict(Estimate.rate(1, 8), Estimate.rate(3, 8))
    'unclear'
    """
    if defended.high - undefended.low <= _WORTHWHILE:
        return "does not hold"
    return "holds" if defended.low > undefended.high and not health else "unclear"


def useful(found: Verdict, clean: Estimate, data: Data) -> Verdict:
    """The verdict on a model with this `clean` accuracy: one that only guesses cannot be attacked, but is of no use."""
    guessing = float(data.y.bincount().max()) / len(data)  # by always giving the most frequent answer
    if clean.value <= guessing:
        return "does not hold"
    return "unclear" if found == "holds" and clean.low <= guessing else found


def _lower(one: Estimate, other: Estimate) -> Estimate:
    return min(one, other, key=lambda estimate: estimate.value)


def _accuracy(model: Model, x: torch.Tensor, labels: torch.Tensor, seed: int) -> Estimate:
    """How often the deployed model is right; one that is random draws from the seed."""
    with model.frozen(seed):
        right = [
            int((model.predict(part) == y.to(model.device)).sum())
            for part, y in zip(torch.split(x, 256), torch.split(labels, 256), strict=True)
        ]
    return Estimate.rate(sum(right), len(x))


def _strongest(model: Model, data: Data, attack: BoundedAttack, seed: int) -> torch.Tensor:
    """Inputs on which the network is as wrong as it gets: those that are only just wrong do not transfer."""
    generator = torch.Generator(model.device).manual_seed(seed)
    ball, step = attack.ball(model), Step(0, 1, 1, generator=generator)
    ascent = PGDTraining(radius=attack.radius, norm=attack.norm, steps=40)  # type: ignore[arg-type] # no l0
    found = []
    for x, y in data.batches(256):
        original = model.check_inputs(x)
        moved = ascent.attack_batch(model, original, y.to(model.device), step)
        found.append(ball.exactly(moved, original).cpu())
    return torch.cat(found)
