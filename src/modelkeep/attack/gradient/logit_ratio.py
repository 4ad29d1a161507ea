"""The difference of logits ratio (Croce2020): a loss that does not depend on how a model scales its logits."""

from __future__ import annotations

import torch

from modelkeep.attack.case import Case
from modelkeep.core.access import Weights


def logit_ratio(case: Case[Weights], _: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """The difference of logits ratio: how far the wanted answer is ahead, in units of how far logits lie apart."""
    return case.lead(logits) / _apart(logits, case.targeted)


def logit_ratio_towards(
    rivals: torch.Tensor, case: Case[Weights], active: torch.Tensor, logits: torch.Tensor
) -> torch.Tensor:
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
