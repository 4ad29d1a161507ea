"""Auto-PGD: ascent that finds its own step sizes (Croce & Hein 2020; for l1, 2021). Nothing to tune but the steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import torch

from modelkeep.attack.case import Case, Target
from modelkeep.attack.frame import carry_out
from modelkeep.attack.gradient.climb import climb
from modelkeep.attack.result import Attacked
from modelkeep.core.access import Weights
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball, Norm

Loss = Literal["ce", "dlr"]


def apgd(
    model: Model,
    data: Data,
    *,
    norm: Norm = "linf",
    radius: float,
    steps: int = 100,
    loss: Loss = "ce",
    restarts: int = 1,
    target: str | Target | None = None,
    mask: torch.Tensor | None = None,
    batch_size: int = 256,
    seed: int,
) -> Attacked:
    """Look for inputs within `radius` of each example that the model gets wrong, with step sizes found on the way.

    Starts with steps as long as the ball is wide, halves them where the loss does not rise any more, and goes on from
    the best point so far. An example is dropped as soon as it is solved; each step costs one forward and one backward
    pass.

    Args:
        model: The model; gradients of its weights are not computed, and it is left as it was.
        data: Examples with their true labels.
        norm: "linf", "l2" or "l1".
        radius: The largest allowed distance, in the owner's units.
        steps: Gradient steps per start.
        loss: What to climb: "ce", the cross-entropy, or "dlr", the difference of logits ratio, which looks only at
            the best wrong class and does not care how the model scales its logits.
        restarts: How many random starts are tried on what is not solved yet.
        target: The class that the answer should become; without it, any wrong answer will do.
        mask: True where the input may change, such as the background only; it must broadcast to the inputs' shape.
        batch_size: Examples that are run at once.
        seed: For the random starts.
    """
    if restarts < 1:
        raise bad_parameter("apgd", "restarts", "at least 1", restarts)
    return carry_out(
        model,
        data,
        [AutoPGD(steps, loss)] * restarts,
        attack=f"APGD-{loss.upper()}",
        ball=Ball(norm, radius, model.bounds),
        target=target,
        mask=mask,
        batch_size=batch_size,
        seed=seed,
    )


@dataclass(frozen=True)
class AutoPGD:
    """The inner loop: `steps` from a random start, uphill on the cross-entropy or the difference of logits ratio."""

    steps: int = 100
    loss: Loss = "ce"
    sees: ClassVar[type[Weights]] = Weights

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise bad_parameter("AutoPGD", "steps", "at least 1", self.steps)
        if self.loss not in ("ce", "dlr"):
            raise bad_parameter("AutoPGD", "loss", "'ce' or 'dlr'", self.loss)

    @property
    def name(self) -> str:
        """As the papers call it."""
        return f"APGD-{self.loss.upper()}"

    def __call__(self, case: Case[Weights]) -> torch.Tensor:
        """Where the climb ends for each example, `(n, ...)`."""
        start = case.ball.random_point(case.original, case.generator, case.allowed)
        return climb(case, start, _cross_entropy if self.loss == "ce" else _dlr, self.steps)[0]


@dataclass(frozen=True)
class AutoPGDTargeted:
    """APGD-T: `steps` towards each of the `targets` most likely wrong classes, on what still stands.

    Of a model with fewer classes, all wrong ones. Where the attack as a whole has a target, it goes only there.
    """

    steps: int = 100
    targets: int = 9
    name: ClassVar[str] = "APGD-T"
    sees: ClassVar[type[Weights]] = Weights

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise bad_parameter("AutoPGDTargeted", "steps", "at least 1", self.steps)
        if self.targets < 1:
            raise bad_parameter("AutoPGDTargeted", "targets", "at least 1", self.targets)

    def __call__(self, case: Case[Weights]) -> torch.Tensor:
        """Where the last climb ends for each example, `(n, ...)`."""
        # One start for all targets: the draws then do not depend on how examples are divided into batches.
        start = case.ball.random_point(case.original, case.generator, case.allowed)
        if case.targeted:
            return climb(case, start, _dlr, self.steps)[0]
        with torch.no_grad():
            clean = case.view.forward(case.original)
        wrong = clean.scatter(1, case.goal[:, None], -torch.inf).argsort(dim=1, descending=True)
        end, stands = start.clone(), torch.arange(len(case), device=start.device)
        for towards in wrong[:, : min(self.targets, clean.shape[1] - 1)].unbind(dim=1):
            rival = partial(_dlr_towards, towards[stands])
            ends, solved = climb(case.part(stands), start[stands], rival, self.steps)
            end[stands] = ends
            stands = stands[~solved]
            if len(stands) == 0:
                break
        return end


def _cross_entropy(case: Case[Weights], _: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    return case.gain(logits)


def _dlr(case: Case[Weights], _: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """The difference of logits ratio: how far the wanted answer is ahead, in units of how far logits lie apart."""
    return case.lead(logits) / _apart(logits, case.targeted)


def _dlr_towards(rivals: torch.Tensor, case: Case[Weights], active: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """How far a fixed wrong class is ahead of the label, in the same units."""
    ahead = logits.gather(1, rivals[active, None]) - logits.gather(1, case.goal[:, None])
    return ahead[:, 0] / _apart(logits, towards=True)


def _apart(logits: torch.Tensor, towards: bool) -> torch.Tensor:
    """The unit of the ratio: the first logit minus the third, or `towards` a class, minus the mean of third and fourth.

    Otherwise the ratio would be constant where that class is the third. Of three classes it is the mean of the second
    and third; of two, nothing lies apart but the lead itself, and the unit is 1.
    """
    top = logits.topk(min(4, logits.shape[1]), dim=1).values
    if logits.shape[1] == 2:
        return torch.ones_like(top[:, 0])
    below = (top[:, -2] + top[:, -1]) / 2 if towards else top[:, 2]
    return (top[:, 0] - below).clamp_min(1e-12)
