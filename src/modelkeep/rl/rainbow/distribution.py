"""Distributions over returns: their means, and the projection of a Bellman update onto the atoms (Bellemare 2017)."""

from __future__ import annotations

import torch


def project(
    probabilities: torch.Tensor, returns: torch.Tensor, discounts: torch.Tensor, support: torch.Tensor
) -> torch.Tensor:
    """The distribution of `return + discount · Z` on the atoms of `support` again, `(n, atoms)`; eq. 7 of C51.

    Z has the `probabilities` `(n, atoms)` on the support's evenly spaced atoms. What an atom moves to is shared between
    its two neighbours by distance; what leaves the support is put on its ends.

    >>> support = torch.linspace(0, 2, 3)
    >>> project(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([0.25]), torch.tensor([1.0]), support)
    tensor([[0.0000, 0.7500, 0.2500]])
    """
    atoms = len(support)
    moved = (returns[:, None] + discounts[:, None] * support).clamp(support[0], support[-1])
    position = (moved - support[0]) * ((atoms - 1) / (support[-1] - support[0]))  # between 0 and atoms - 1
    left = position.floor().clamp(max=atoms - 2)
    share = (position - left) * probabilities  # that the right neighbour gets
    left = left.long()
    projected = torch.zeros_like(probabilities)
    return projected.scatter_add_(1, left, probabilities - share).scatter_add_(1, left + 1, share)


def mean(probabilities: torch.Tensor, support: torch.Tensor) -> torch.Tensor:
    """The expected return of each action, `(n, actions)`, of probabilities `(n, actions, atoms)`."""
    return probabilities @ support
