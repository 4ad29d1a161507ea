"""Measures: how much of the inputs is in their reconstructions."""

from __future__ import annotations

import torch
from torch.nn.functional import avg_pool2d

from modelkeep.core.errors import InputError
from modelkeep.core.results import Estimate

_WINDOW = 7


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

    >>> reidentified(torch.eye(4), torch.eye(4)).value
    1.0
    """
    nearest = torch.cdist(guess.flatten(1), truth.flatten(1)).argmin(dim=1)
    return Estimate.rate(int((nearest.cpu() == torch.arange(len(truth))).sum()), len(truth))


def similarity(truth: torch.Tensor, guess: torch.Tensor, span: float, seed: int) -> Estimate | None:
    """The mean SSIM (Wang2004) of pictures `(n, c, h, w)` with values of that `span`; None for anything else.

    Windows of 7×7 pixels with equal weights (of the picture's size where that is smaller) that lie wholly inside.
    """
    if truth.ndim != 4 or min(truth.shape[2:]) < 2:
        return None
    side = min(_WINDOW, *truth.shape[2:])
    size, a, b = side * side, truth.double(), guess.double()
    mean_a, mean_b = avg_pool2d(a, side, 1), avg_pool2d(b, side, 1)
    unbiased = size / (size - 1)
    var_a = unbiased * (avg_pool2d(a * a, side, 1) - mean_a**2)
    var_b = unbiased * (avg_pool2d(b * b, side, 1) - mean_b**2)
    both = unbiased * (avg_pool2d(a * b, side, 1) - mean_a * mean_b)
    c1, c2 = (0.01 * span) ** 2, (0.03 * span) ** 2
    maps = (2 * mean_a * mean_b + c1) * (2 * both + c2) / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))
    return Estimate.bootstrap(maps.flatten(1).mean(dim=1).cpu().numpy(), seed)
