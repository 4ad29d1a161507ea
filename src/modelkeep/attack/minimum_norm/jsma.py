"""JSMA: change the pixels that the Jacobian's saliency map ranks highest (Papernot2016)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch

from modelkeep.attack.base import Attack, norm_setting
from modelkeep.attack.case import Case
from modelkeep.attack.minimum_norm.jacobian import jacobian
from modelkeep.core.access import Weights
from modelkeep.core.method import declare, setting
from modelkeep.core.norms import AnyNorm


@declare("attack", "jsma", access="weights", paper="Papernot2016")
class JSMA(Attack):
    """The values that count most, one pair after the other.

    A value goes up or down, whichever is more salient, and is not touched again when it is at its bound or was
    changed once. Without a target, each step works towards the likeliest wrong class at that moment.
    """

    cheap: ClassVar[dict[str, Any]] = {}

    norm: AnyNorm = norm_setting("l0")
    theta: float = setting(
        "How far a value is moved, as a share of the bounds' width; without bounds, in the units of the data.",
        default=1.0,
        above=0,
        below=math.inf,
    )
    max_share: float = setting(
        "The largest share of an input's values that may be changed.", default=0.15, above=0, at_most=1
    )
    pairs: bool = setting(
        "Two values at a time, chosen together, as in the paper; or one at a time, which needs more steps.",
        default=True,
    )

    def search(self, case: Case[Weights], /) -> torch.Tensor:
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
