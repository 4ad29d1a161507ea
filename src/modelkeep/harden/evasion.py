"""Evasion: an attack that knows the detector, fools the model and stays unnoticed (after Carlini2017)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from modelkeep.attack import PGD, Target
from modelkeep.attack.adaptive import shared_copy
from modelkeep.core.card import Preprocessing
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.norms import Norm
from modelkeep.core.results import Estimate, Result, Tensor, measured
from modelkeep.harden.detection import Detector
from modelkeep.harden.transforms import preprocessing_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTICED = "noticed by the detector"


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaded(Result, kind="evaded"):
    """How model and detector stand together. An example is lost where the answer is wrong and nothing is noticed.

    `clean` is how often a clean input is answered rightly without an alarm, `held` how often the attack failed.
    Where it failed, `adversarial` is the original and `success` is False.
    """

    detector: str
    norm: str
    radius: float
    clean: Estimate
    held: Estimate
    health: tuple[str, ...]
    labels: Tensor = field(repr=False)
    original: Tensor = field(repr=False)
    adversarial: Tensor = field(repr=False)
    success: Tensor = field(repr=False)

    def rows(self) -> list[tuple[str, str]]:
        return [
            ("detector", self.detector),
            ("attack", f"PGD {self.norm}, radius {self.radius:g}, on model and detector together"),
            ("clean: right, no alarm", str(self.clean)),
            ("attacked: right or alarm", str(self.held)),
            ("health", "; ".join(self.health) or "nothing suspicious"),
        ]

    def draw(self) -> Figure:
        """How often model and detector stand together, clean and attacked."""
        from modelkeep.core import plots

        shares = {"clean: right, no alarm": self.clean, "attacked: right or alarm": self.held}
        return plots.bars(shares, title=self.detector, x_label="share of the examples")


def evade(
    detector: Detector,
    data: Data,
    *,
    norm: Norm = "linf",
    radius: float,
    steps: int = 100,
    targets: int = 3,
    seed: int = 0,
) -> Evaded:
    """Look for inputs within `radius` that the model gets wrong and the detector does not flag.

    PGD on `together(detector)`, towards the most likely wrong class, then the next, until `targets` were tried.

    Args:
        detector: The detector, with the model that it watches over.
        data: Examples with their true labels.
        norm: "linf", "l2" or "l1".
        radius: The largest allowed distance, in the owner's units.
        steps: Gradient steps towards each target.
        targets: How many wrong classes are tried.
        seed: For the random starts.
    """
    count = len(detector.model.classes)
    if not 1 <= targets < count:
        raise bad_parameter("evade", "targets", f"from 1 to {count - 1}, the number of wrong classes", targets)
    detector.model.require_fit(data)
    both = together(detector)
    seen = replace(data, classes=both.classes)
    with measured(seed, detector.model.fingerprint(), data.fingerprint()) as provenance:
        right, alarm = _answers(detector, data.x, data.y)
        clean = Estimate.rate(int((right & ~alarm).sum()), len(data))
        success = ~right & ~alarm  # lost without an attack
        adversarial, health = data.x.clone(), []
        for rank in range(targets):
            standing = torch.nonzero(~success).flatten()
            if len(standing) == 0:
                break
            wanted = _wrong(data.y[standing], rank)
            found = PGD(norm=norm, radius=radius, steps=steps, target=wanted)(both, seen.take(standing), seed=seed)
            # Only what the deployed model and detector say counts, to which a logit is not rounded.
            right, alarm = _answers(detector, found.adversarial, found.labels)
            won = found.success & ~right & ~alarm
            adversarial[standing[won]], success[standing[won]] = found.adversarial[won].to(adversarial.dtype), True
            health += [note for note in found.health if note not in health]
        return Evaded(
            provenance=provenance(),
            detector=detector.name,
            norm=norm,
            radius=radius,
            clean=clean,
            held=Estimate.rate(int((~success).sum()), len(data)),
            health=tuple(health),
            labels=data.y,
            original=data.x,
            adversarial=adversarial,
            success=success,
        )


def together(detector: Detector) -> Model:
    """Model and detector as one model with one more class, for flagged inputs; any targeted attack can be given it.

    The last logit is the largest other one plus how far the score is above the threshold, in its spreads. So the answer
    is a class only where the detector is silent, and gradients follow both. The weights are shared with them.
    """
    model = detector.model
    card = replace(
        model.card, classes=(*model.classes, NOTICED), preprocessing=Preprocessing(), architecture=None, arguments={}
    )
    return Model.from_card(_Together(detector), card, model.device)


def _answers(detector: Detector, x: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Whether the model is right, and whether the detector raises the alarm, `(n,)` each."""
    predicted = torch.cat([detector.model.predict(part) for part in torch.split(x, 256)])
    return predicted.cpu() == labels, detector.flags(x).cpu()


def _wrong(labels: torch.Tensor, rank: int) -> Target:
    """The wrong class that is the most likely one (rank 0), the next (1), and so on."""

    def of(logits: torch.Tensor) -> torch.Tensor:
        own = logits[:, :-1].scatter(1, labels.to(logits.device)[:, None], -torch.inf)
        return own.argsort(dim=1, descending=True)[:, rank]

    return Target(f"wrong class {rank + 1}, unnoticed", of)


class _Together(nn.Module):
    """The model's logits and one more, which leads where the detector's score is above its threshold."""

    def __init__(self, detector: Detector) -> None:
        super().__init__()
        self.preprocessing = preprocessing_of(detector.model)
        self.network = shared_copy(detector.model.module)
        self.score = detector.score if detector.attackable is None else detector.attackable
        self.threshold = detector.threshold
        self.spread = detector.spread

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.network(self.preprocessing(x))
        excess = (self.score(x) - self.threshold) / self.spread
        return torch.cat([logits, (logits.amax(dim=1) + excess)[:, None]], dim=1)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, spread={self.spread}"
