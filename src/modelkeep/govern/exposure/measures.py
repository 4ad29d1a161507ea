"""Measures: how much of the inputs is in their reconstructions."""

from __future__ import annotations

import torch

from modelkeep.core.errors import InputError
from modelkeep.core.results import Estimate
from modelkeep.core.similarity import ssim


def relative_error(truth: torch.Tensor, guess: torch.Tensor, mean: torch.Tensor, seed: int) -> Estimate:
    """The mean squared error over that of guessing `mean` for all: 0 is exact, 1 is nothing learned.

    `truth`, `guess`: (n, ...). The denominator is taken as it is, the interval is that of the numerator.

    >>> x = torch.eye(4)
    >>> relative_error(x, x.mean(0).expand(4, 4), x.mean(0), seed=0).value
    1.0
    """
    nothing = float((truth - mean).flatten(1).square().sum(dim=1).mean())
    if nothing == 0:
        raise InputError("All inputs are the same, so there is nothing to reconstruct. Give data that differ.")
    errors = (truth - guess).flatten(1).square().sum(dim=1) / nothing
    return Estimate.bootstrap(errors.double().cpu().numpy(), seed)


def reidentification_rate(truth: torch.Tensor, guess: torch.Tensor) -> Estimate:
    """How often the nearest of the n true inputs is the reconstruction's own; guessing gives 1/n.

    >>> reidentification_rate(torch.eye(4), torch.eye(4)).value
    1.0
    """
    nearest = torch.cdist(guess.flatten(1), truth.flatten(1)).argmin(dim=1)
    return Estimate.rate(int((nearest.cpu() == torch.arange(len(truth))).sum()), len(truth))


def similarity(truth: torch.Tensor, guess: torch.Tensor, span: float, seed: int) -> Estimate | None:
    """The mean SSIM of pictures `(n, c, h, w)` with values of that `span`; None for anything else."""
    if truth.ndim != 4 or min(truth.shape[2:]) < 2:
        return None
    return Estimate.bootstrap(ssim(truth, guess, span).cpu().numpy(), seed)
