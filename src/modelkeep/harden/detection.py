"""Detectors: they answer nothing themselves, but raise an alarm at inputs that look attacked (Saha2020, 2.3.2).

A detector is a score of suspicion and a threshold. It is judged twice: here on the examples of an attack that does not
know it, and in `evasion` by an attack that wants to fool the model and stay unnoticed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from modelkeep.attack import Attacked
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError, bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.results import Estimate, Result, Tensor, measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Detector:
    """Watches over `model`: an input whose `score` is above the `threshold` is flagged.

    `score` maps inputs `(n, ...)` in the owner's units to suspicion `(n,)`; `spread` is its standard deviation on clean
    inputs. `attackable` gives the same numbers with gradients that are of use, where those of `score` are not.
    """

    name: str
    model: Model
    score: nn.Module
    threshold: float
    spread: float
    attackable: nn.Module | None = None

    def scores(self, x: torch.Tensor, batch_size: int = 256) -> torch.Tensor:
        """The suspicion against each input `(n,)`."""
        x = self.model.check_inputs(x)
        with torch.no_grad():
            return torch.cat([self.score(part) for part in torch.split(x, batch_size)])

    def flags(self, x: torch.Tensor) -> torch.Tensor:
        """Whether each input raises the alarm `(n,)`."""
        return self.scores(x) > self.threshold


def calibrate(
    name: str,
    model: Model,
    score: nn.Module,
    clean: Data,
    *,
    false_positive_rate: float = 0.05,
    attackable: nn.Module | None = None,
) -> Detector:
    """The detector whose threshold flags this share of `clean` data, which it should not have been trained on."""
    if not 0 < false_positive_rate < 1:
        raise bad_parameter("calibrate", "false_positive_rate", "between 0 and 1", false_positive_rate)
    model.require_fit(clean)
    for module in (score, attackable):
        if module is not None:
            module.to(model.device, model.dtype).eval()
    detector = Detector(name, model, score, 0.0, 1.0, attackable)
    scores = detector.scores(clean.x).double()
    # The lowest score that at most the wanted share lies above; the rounding of 0.05 · 100 must not cost an example.
    above = int(false_positive_rate * len(scores) + 1e-9)
    threshold = scores.sort(descending=True).values[above]
    spread = max(float(scores.std()) if len(scores) > 1 else 0.0, 1e-6)
    return replace(detector, threshold=float(threshold), spread=spread)


@dataclass(frozen=True, kw_only=True, eq=False)
class Detected(Result, kind="detected"):
    """How well a detector tells the inputs that an attack found from their originals."""

    detector: str
    attack: str
    threshold: float
    auc: Estimate
    detection_rate: Estimate
    false_positive_rate: Estimate
    clean_scores: Tensor = field(repr=False)
    attacked_scores: Tensor = field(repr=False)

    def rows(self) -> list[tuple[str, str]]:
        return [
            ("detector", f"{self.detector}, threshold {self.threshold:.4g}"),
            ("attack", self.attack),
            ("area under the ROC curve", str(self.auc)),
            ("attacked inputs flagged", str(self.detection_rate)),
            ("clean inputs flagged", str(self.false_positive_rate)),
        ]

    def draw(self) -> Figure:
        """The shares that are flagged."""
        from modelkeep.core import plots

        flagged = {"attacked inputs": self.detection_rate, "clean inputs": self.false_positive_rate}
        return plots.bars(flagged, title=self.detector, x_label="share that is flagged")


def judge(detector: Detector, attacked: Attacked) -> Detected:
    """Score the detector on what an attack found, against the originals of all examples."""
    found = attacked.success & (attacked.distance > 0)
    if not found.any():
        raise InputError(f"{attacked.attack} found no adversarial input, so there is nothing to detect.")
    with measured(attacked.provenance.seed, detector.model.fingerprint(), attacked.provenance.data) as provenance:
        clean = detector.scores(attacked.original).cpu()
        moved = detector.scores(attacked.adversarial[found]).cpu()
        return Detected(
            provenance=provenance(),
            detector=detector.name,
            attack=f"{attacked.attack} {attacked.norm}, radius {attacked.radius}",
            threshold=detector.threshold,
            auc=area_under_curve(clean, moved),
            detection_rate=Estimate.rate(int((moved > detector.threshold).sum()), len(moved)),
            false_positive_rate=Estimate.rate(int((clean > detector.threshold).sum()), len(clean)),
            clean_scores=clean,
            attacked_scores=moved,
        )


def area_under_curve(clean: torch.Tensor, attacked: torch.Tensor) -> Estimate:
    """The probability that an attacked input is more suspicious than a clean one; a tie counts half.

    The interval is that of as many independent pairs as the smaller group allows, of which this is an average over all
    ways to pair them; so it is no narrower than it may be, also at an area of 1.

    >>> area_under_curve(torch.tensor([0.1, 0.4]), torch.tensor([0.3, 0.9])).value
    0.75
    """
    ordered = clean.sort().values
    below = torch.searchsorted(ordered, attacked, right=False) + torch.searchsorted(ordered, attacked, right=True)
    value = float(below.double().mean()) / (2 * len(clean))
    pairs = min(len(clean), len(attacked))
    interval = Estimate.rate(round(value * pairs), pairs)
    return Estimate(value, min(interval.low, value), max(interval.high, value), pairs)
