"""Similarity of pictures: SSIM, example by example."""

from __future__ import annotations

import torch
from torch.nn.functional import avg_pool2d

_WINDOW = 7


def ssim(a: torch.Tensor, b: torch.Tensor, span: float) -> torch.Tensor:
    """The mean SSIM (Wang2004) `(n,)` of pictures `(n, c, h, w)` with values of that `span`.

    Windows of 7×7 pixels with equal weights (of the picture's size where that is smaller) that lie wholly inside.

    >>> ssim(torch.eye(8)[None, None], torch.eye(8)[None, None], 1.0)
    tensor([1.], dtype=torch.float64)
    """
    a, b = a.double(), b.double()
    return _compare(a, *_moments(a), b, *_moments(b), span)


def nearest(pictures: torch.Tensor, among: torch.Tensor, span: float) -> tuple[torch.Tensor, torch.Tensor]:
    """For each of `pictures: (n, c, h, w)` the most similar of `among: (m, c, h, w)`: its place and the SSIM."""
    pictures, among = pictures.double(), among.double()
    others = _moments(among)  # once: they take longer than the comparison
    found = [_compare(one, *_moments(one), among, *others, span).max(dim=0) for one in torch.split(pictures, 1)]
    return torch.stack([each.indices for each in found]), torch.stack([each.values for each in found])


def _moments(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean and the unbiased variance of each window."""
    side = min(_WINDOW, *x.shape[2:])
    mean = avg_pool2d(x, side, 1)
    return mean, side * side / (side * side - 1) * (avg_pool2d(x * x, side, 1) - mean**2)


def _compare(
    a: torch.Tensor,
    mean_a: torch.Tensor,
    var_a: torch.Tensor,
    b: torch.Tensor,
    mean_b: torch.Tensor,
    var_b: torch.Tensor,
    span: float,
) -> torch.Tensor:
    side = min(_WINDOW, *a.shape[2:])
    both = side * side / (side * side - 1) * (avg_pool2d(a * b, side, 1) - mean_a * mean_b)
    c1, c2 = (0.01 * span) ** 2, (0.03 * span) ** 2
    maps: torch.Tensor = (
        (2 * mean_a * mean_b + c1) * (2 * both + c2) / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))
    )
    return maps.flatten(1).mean(dim=1)
