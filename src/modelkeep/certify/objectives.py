"""What certified training makes small: losses that a point is free of only where it is right and provably so.

All of them compare logits with ε K_ij, the most that the margin of two classes can lose within the radius ε. They
take K from the running estimate that is kept from step to step (`estimate.MarginEstimate`), so that a step costs little
more than one of plain training; a certificate never does. Where the radius is 0, as in the warm-up of Leino2022, A.4,
each of them is plain cross-entropy and nothing is estimated.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import torch
from torch.nn.functional import cross_entropy, softplus

from modelkeep.certify.estimate import MarginEstimate
from modelkeep.certify.guarantees import Guarantee, Standard, with_bottom
from modelkeep.core.errors import bad_parameter
from modelkeep.core.method import declare, setting
from modelkeep.core.model import Model
from modelkeep.core.norms import Norm
from modelkeep.training import Loss, Schedule, Step, at


@dataclass
class _Running:
    """What is kept between steps: the estimate, or the iterates of a checkpoint that it goes on from."""

    estimate: MarginEstimate | None = None
    restored: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CertifiedObjective(ABC):
    """The part that all share: the radius, which may be a schedule, and the estimate that is kept between steps."""

    radius: float | Schedule = setting("How far an input may be moved: a number or a schedule.")
    _: KW_ONLY
    norm: Norm = setting("How a change is measured.", default="l2")
    _running: _Running = field(init=False, repr=False, compare=False, default_factory=_Running)

    def __post_init__(self) -> None:
        _check(type(self).__name__, "radius", self.radius)

    @abstractmethod
    def loss(self, logits: torch.Tensor, cost: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        """The mean loss, given the logits `(n, m)` and what the margins can lose, `cost: (m, m)`."""

    def __call__(self, model: Model, x: torch.Tensor, y: torch.Tensor, step: Step) -> Loss:
        logits = model.forward(x)
        radius = at(self.radius, step)
        if radius == 0:
            return cross_entropy(logits, y)
        cost = radius * self._margins(model, step).to(logits.dtype)
        with torch.no_grad():  # a glance at how it goes, by the estimate: the VRA itself is measured with bounds
            held = (logits.gather(1, y[:, None]) - logits > cost[y]).sum(dim=1) == logits.shape[1] - 1
        return self.loss(logits, cost, y, step), {"verified": held.to(logits.dtype).mean()}

    def _margins(self, model: Model, step: Step) -> torch.Tensor:
        """K, of an estimate that every run begins anew, so that what was trained before makes no difference."""
        running = self._running
        if running.estimate is None or step.number == 0:
            running.estimate = MarginEstimate(model, self.norm)
            if running.restored:
                running.estimate.load_state_dict(running.restored)
                running.restored = {}
        return running.estimate.margins()

    def state_dict(self) -> dict[str, Any]:
        """The iterates of the estimate, for the checkpoint."""
        estimate = self._running.estimate
        return self._running.restored if estimate is None else estimate.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from these iterates, with whichever model comes next."""
        self._running.estimate, self._running.restored = None, state


@declare("certified-training", "gloro", paper="Leino2022, section 6.3.1")
class GloRoCrossEntropy(CertifiedObjective):
    """Cross-entropy on the m + 1 outputs of a GloRo Net, ⊥ being never the right one.

    The gradient of f_⊥ is that of Leino2022, A.1. Without `through_top` it is that of chapter 7's footnote 2, which
    never lowers a prediction: for networks that predict well already (see `with_bottom`).

    >>> from torch import nn
    >>> from modelkeep import Data
    >>> from modelkeep.training import Recipe, fit
    >>> data = Data(torch.eye(4), torch.arange(4) % 2, ("even", "odd"))
    >>> model = Model(nn.Linear(4, 2), input_shape=(4,), classes=data.classes)
    >>> fitted = fit(model, data, GloRoCrossEntropy(0.3), Recipe(epochs=300, learning_rate=0.1), seed=0)
    >>> fitted.history[-1].metrics["verified"]
    1.0
    """

    guarantee: Guarantee = setting("What must stay.", default_factory=Standard)
    through_top: bool = setting("Whether the gradient of f_⊥ also goes through the largest logit.", default=True)

    def loss(self, logits: torch.Tensor, cost: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        margin = self.guarantee.margin(logits, cost)
        return cross_entropy(with_bottom(logits, margin, through_top=self.through_top), y)


@declare("certified-training", "gloro-trades", paper="Leino2022, definition 6.2")
class GloRoTrades(CertifiedObjective):
    """CE(f, y) + λ D_KL(f padded with a ⊥ of probability 0 ‖ f^ε): be right, and be sure.

    The definition prints the two arguments the other way round, which is infinite: f has no ⊥ to compare with. The
    authors' code pads f with 0 and takes it as the truth, as here. Then all the ratios in the divergence are
    the same, and it is -log(1 - P(⊥)) = log(1 + exp(f_⊥ - logsumexp f)). `through_top` as in `GloRoCrossEntropy`.
    """

    weight: float | Schedule = setting("λ: a number or a schedule.", default=1.0)
    guarantee: Guarantee = setting("What must stay.", default_factory=Standard)
    through_top: bool = setting("Whether the gradient of f_⊥ also goes through the largest logit.", default=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(type(self).__name__, "weight", self.weight)

    def loss(self, logits: torch.Tensor, cost: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        margin = self.guarantee.margin(logits, cost)
        bottom = with_bottom(logits, margin, through_top=self.through_top)[:, -1]
        divergence = softplus(bottom - logits.logsumexp(dim=1)).mean()
        return cross_entropy(logits, y) + at(self.weight, step) * divergence


@declare("certified-training", "lipschitz-margin", paper="Tsuzuku2018; Leino2022, section 6.5")
class LipschitzMargin(CertifiedObjective):
    """Cross-entropy after every class but the right one has gained ε K_yi: Lipschitz margin training.

    Tsuzuku2018 adds √2 ε K, of one K for the whole network; K_yi is the same bound made tighter (Leino2022, A.1).
    """

    def loss(self, logits: torch.Tensor, cost: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        return cross_entropy(logits + cost[y], y)


@declare("certified-training", "emma", paper="Hu2023")
class EMMA(CertifiedObjective):
    """Efficient margin maximisation: each class gains ε_i K_yi, with a radius ε_i of its own.

    ε_i is how far the right class is certified against class i now, at most ε and at least a hundredth of it. So no
    class is pushed away before it is passed, and the radius grows by itself as the training goes on.
    """

    def loss(self, logits: torch.Tensor, cost: torch.Tensor, y: torch.Tensor, step: Step) -> torch.Tensor:
        gains = cost[y]
        lead = logits.detach().gather(1, y[:, None]) - logits.detach()
        share = (lead / gains.detach().clamp(min=torch.finfo(gains.dtype).tiny)).clamp(0.01, 1.0)
        return cross_entropy(logits + share * gains, y)


def _check(objective: str, name: str, value: float | Schedule) -> None:
    if not callable(value) and not 0 <= value < math.inf:
        raise bad_parameter(objective, name, "a number of at least 0 or a schedule", value)
