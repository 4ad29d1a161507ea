"""JSMA: change the pixels that the Jacobian's saliency map ranks highest (Papernot et al. 2016)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from modelkeep.attack.case import Case, Target
from modelkeep.attack.frame import carry_out
from modelkeep.attack.nearest.jacobian import jacobian
from modelkeep.attack.result import Attacked
from modelkeep.core.access import Weights
from modelkeep.core.data import Data
from modelkeep.core.errors import bad_parameter
from modelkeep.core.model import Model
from modelkeep.core.norms import Ball


def jsma(
    model: Model,
    data: Data,
    *,
    theta: float = 1.0,
    max_share: float = 0.15,
    pairs: bool = True,
    target: str | Target | None = None,
    mask: torch.Tensor | None = None,
    batch_size: int = 256,
    seed: int,
) -> Attacked:
    """Change as few values as possible, each by `theta`, where that helps the wanted class and hurts the others most.

    A value goes up or down, whichever is more salient, and is not touched again when it is at its bound or was
    changed once. Without a target, each step works towards the likeliest wrong class at that moment.

    Args:
        model: The model; gradients of its weights are not computed, and it is left as it was.
        data: Examples with their true labels.
        theta: How far a value is moved, as a share of the bounds' width; without bounds, in the owner's units.
        max_share: The largest share of an input's values that may be changed.
        pairs: Two values at a time, chosen together, as in the paper; or one at a time, which needs more steps.
        target: The class that the answer should become; without it, any wrong answer will do.
        mask: True where the input may change; it must broadcast to the inputs' shape.
        batch_size: Examples that are run at once.
        seed: Nothing is drawn; it goes into the result.
    """
    return carry_out(
        model,
        data,
        [JSMA(theta, max_share, pairs)],
        attack="JSMA",
        ball=Ball("l0", None, model.bounds),
        target=target,
        mask=mask,
        batch_size=batch_size,
        seed=seed,
    )


@dataclass(frozen=True)
class JSMA:
    """The inner loop; see `jsma`."""

    theta: float = 1.0
    max_share: float = 0.15
    pairs: bool = True
    name: ClassVar[str] = "JSMA"
    sees: ClassVar[type[Weights]] = Weights

    def __post_init__(self) -> None:
        if not 0 < self.theta < math.inf:
            raise bad_parameter("jsma", "theta", "a number above 0", self.theta)
        if not 0 < self.max_share <= 1:
            raise bad_parameter("jsma", "max_share", "a share above 0 and up to 1", self.max_share)

    def __call__(self, case: Case[Weights]) -> torch.Tensor:
        """The changed input of each example, `(n, ...)`."""
        low, high = case.ball.bounds or (-math.inf, math.inf)
        far = self.theta if case.ball.bounds is None else self.theta * (high - low)
        at_once = 2 if self.pairs else 1
        steps = max(1, int(self.max_share * case.original[0].numel()) // at_once)
        end, x, going = case.original.clone(), case.original.clone(), case
        active = torch.arange(len(case), device=x.device)
        touched = torch.zeros_like(x, dtype=torch.bool) if case.allowed is None else ~case.allowed
        for step in range(steps + 1):
            wanted, others, logits = _saliency(going, x)
            if step == 0:
                case.health.see_gradient(wanted)
            solved = going.reached(logits)
            if step == steps:
                solved = torch.ones_like(solved)
            elif solved.any():
                case.health.see_solved(step, int(solved.sum()), steps)
            end[active[solved]], rest = x[solved], ~solved
            active, x, touched, going = active[rest], x[rest], touched[rest], going.part(rest)
            if len(active) == 0:
                break
            index, signs = self._choose(wanted[rest], others[rest], x, touched, (low, high))
            change = torch.zeros_like(x.flatten(1)).scatter_(1, index, signs * far).view_as(x)
            x = (x + change).clamp(low, high)
            touched = touched | (change != 0)
        return end

    def _choose(
        self,
        wanted: torch.Tensor,
        others: torch.Tensor,
        x: torch.Tensor,
        touched: torch.Tensor,
        bounds: tuple[float, float],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The positions `(n, 1 or 2)` of the highest saliency −α·β, α > 0 > β, and the directions to move them in."""
        best, chosen, signs = [], [], []
        for sign in (1, -1):
            stuck = touched | ((x >= bounds[1]) if sign > 0 else (x <= bounds[0]))
            alpha, beta = (sign * part.flatten(1) for part in (wanted, others))
            value, index = (
                _best_pair(alpha, beta, stuck.flatten(1)) if self.pairs else _best(alpha, beta, stuck.flatten(1))
            )
            best.append(value)
            chosen.append(index)
            signs.append(torch.full_like(index, sign))
        up = (best[0] >= best[1])[:, None]
        possible = torch.maximum(*best)[:, None] > -torch.inf
        direction = torch.where(up, signs[0], signs[1]) * possible
        return torch.where(up, chosen[0], chosen[1]), direction.to(x.dtype)


def _saliency(case: Case[Weights], x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients of the wanted class's logit and of the sum of the others, and the logits."""

    def wanted_and_all(logits: torch.Tensor) -> torch.Tensor:
        likeliest = logits.scatter(1, case.goal[:, None], -torch.inf).argmax(dim=1)
        wanted = case.goal if case.targeted else likeliest
        return torch.stack([logits.gather(1, wanted[:, None])[:, 0], logits.sum(dim=1)], dim=1)

    (wanted, total), logits = jacobian(case, x, wanted_and_all)
    return torch.nan_to_num(wanted), torch.nan_to_num(total - wanted), logits


def _score(alpha: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    """−α·β where α > 0 > β, as in the paper; elsewhere below zero, by what the wanted class gains on the others."""
    salient = (alpha > 0) & (beta < 0)
    # The map is mostly empty on deep networks; the paper's attack would then give up.
    fallback = (alpha - beta) - (alpha - beta).amax(dim=-1, keepdim=True) - 1
    return torch.where(salient, -alpha * beta, fallback)


def _best(alpha: torch.Tensor, beta: torch.Tensor, stuck: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    value, index = _score(alpha, beta).masked_fill(stuck, -torch.inf).max(dim=1)
    return value, index[:, None]


def _best_pair(alpha: torch.Tensor, beta: torch.Tensor, stuck: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The best pair among the 64 values on which the wanted class gains most; all pairs would be too many."""
    gain = (alpha - beta).masked_fill(stuck, -torch.inf)
    near = gain.topk(min(64, gain.shape[1]), dim=1).indices
    a, b, out = alpha.gather(1, near), beta.gather(1, near), stuck.gather(1, near)
    size = near.shape[1]
    pairs_a, pairs_b = (part[:, :, None] + part[:, None, :] for part in (a, b))
    itself = torch.eye(size, dtype=torch.bool, device=out.device)
    excluded = (out[:, :, None] | out[:, None, :] | itself).flatten(1)
    value, index = _score(pairs_a.flatten(1), pairs_b.flatten(1)).masked_fill(excluded, -torch.inf).max(dim=1)
    return value, near.gather(1, torch.stack([index // size, index % size], dim=1))
