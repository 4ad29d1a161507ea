"""Attacks by one number per record: right or wrong, the loss, the entropy, the modified entropy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from modelkeep.core.data import Data
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.privacy.membership.attack import MembershipAttack, of_label, predictions, probabilities
from modelkeep.privacy.membership.knowledge import Knowledge

_TINY = 1e-30


@declare("membership", "naive", access="labels", paper="Yeom2018; Leino2022, section 8.3.3")
class Naive(MembershipAttack):
    """A record is a member where the model's answer is right."""

    def score(self, model: Model, candidates: Data, knowledge: Knowledge, *, seed: int = 0) -> torch.Tensor:
        """1 where the answer is right, and -1 where it is wrong."""
        right = predictions(model, candidates) == candidates.y
        return 2.0 * right.double() - 1.0


@dataclass(frozen=True, kw_only=True)
class _Threshold(MembershipAttack):
    """A number per record, less the threshold of the record's class."""

    cheap: ClassVar[dict[str, Any]] = {"shadows": 2}

    shadows: int = setting(
        "Shadow models that each class's threshold is learned from (an even number); 0: the median of the hold-out "
        "records of that class.",
        default=0,
        at_least=0,
    )

    def measure(self, probs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The number of each record, higher for members. `probs: (n, classes)`."""
        raise NotImplementedError

    def score(self, model: Model, candidates: Data, knowledge: Knowledge, *, seed: int = 0) -> torch.Tensor:
        """The number of each record, less its threshold."""
        held = knowledge.hold_out
        if self.shadows:
            trained = knowledge.shadows(self.name, model, held, self.shadows, seed)
            values = torch.cat([self.measure(probabilities(each, held), held.y) for each in trained.models])
            thresholds = learn_thresholds(values, held.y.repeat(len(trained)), trained.inside.flatten(), held.classes)
        else:
            values = self.measure(probabilities(model, held), held.y)
            thresholds = medians(values, held.y, held.classes)
        return self.measure(probabilities(model, candidates), candidates.y) - thresholds[candidates.y]


@declare("membership", "loss", access="scores", paper="Yeom2018; Song2021")
class Loss(_Threshold):
    """A record is a member where its loss is low."""

    def measure(self, probs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The log-probability of the label, by 1 / p = 1 + (1 - p) / p, which keeps its digits where p is nearly 1."""
        own = of_label(probs, y).clamp_min(_TINY)
        return -torch.log1p(probs.scatter(1, y[:, None], 0.0).sum(dim=1) / own)


@declare("membership", "entropy", access="scores", paper="Song2021")
class Entropy(_Threshold):
    """A record is a member where the model's answer has a low entropy; the label is not looked at."""

    def measure(self, probs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The negative entropy of the answer."""
        return torch.xlogy(probs, probs).sum(dim=1)


@declare("membership", "modified-entropy", access="scores", paper="Song2021")
class ModifiedEntropy(_Threshold):
    """A record is a member where the model's answer is certain and right."""

    def measure(self, probs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """(1 - p_y) log p_y + Σ_{i ≠ y} p_i log(1 - p_i): 0 for a certain and right answer, and below it else."""
        own = of_label(probs, y)
        # 1 - p as the sum of the others, which keeps its digits where p is nearly 1.
        classes = probs.shape[1]
        rest = (probs @ (1 - torch.eye(classes, dtype=probs.dtype))).clamp_min(_TINY)
        others = (probs * rest.log()).scatter(1, y[:, None], 0.0).sum(dim=1)
        return of_label(rest, y) * own.clamp_min(_TINY).log() + others


def medians(values: torch.Tensor, y: torch.Tensor, classes: tuple[str, ...]) -> torch.Tensor:
    """The median of each class, `(classes,)`; that of all records where a class has none."""
    found = [values[y == c] if (y == c).any() else values for c in range(len(classes))]
    return torch.stack([each.quantile(0.5) for each in found])


def learn_thresholds(
    values: torch.Tensor, y: torch.Tensor, inside: torch.Tensor, classes: tuple[str, ...]
) -> torch.Tensor:
    """For each class the threshold above which most are members: the largest TPR - FPR, halfway between two values."""
    found = []
    for c in range(len(classes)):
        own = y == c if (y == c).any() else torch.ones_like(y, dtype=torch.bool)
        ordered, order = values[own].sort()
        member = inside[own][order]
        # Members and non-members above each value; a threshold below all accuses everyone.
        above = [kind.flip(0).cumsum(0).flip(0) / kind.sum().clamp_min(1) for kind in (member, ~member)]
        gain = torch.cat([above[0] - above[1], torch.zeros(1)])
        # Between equal values there is no threshold.
        gain[1:-1][ordered[1:] == ordered[:-1]] = -1.0
        edges = torch.cat([ordered[:1] - 1, ordered, ordered[-1:] + 1])
        best = int(gain.argmax())
        found.append((edges[best] + edges[best + 1]) / 2)
    return torch.stack(found)
