"""MinMax: the activation that sorts neighbouring features, so that it keeps every norm of a gradient."""

from __future__ import annotations

import torch
from torch import nn


class MinMax(nn.Module):
    """Of each pair of neighbouring features, the larger first (GroupSort with groups of 2; Leino2022, appendix A.4).

    `x: (n, features, ...)` with an even number of features. Its Jacobian is a permutation, so a network of
    Lipschitz layers keeps its Lipschitz constant without losing gradient, as it does with ReLU.

    >>> MinMax()(torch.tensor([[1.0, 2.0, 4.0, 3.0]]))
    tensor([[2., 1., 4., 3.]])
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = torch.unflatten(x, 1, (-1, 2)).unbind(2)
        if torch.is_grad_enabled():
            # The derivative of `maximum` halves ties, which takes longer than all the rest of a small network.
            ordered = first > second
            larger, smaller = torch.where(ordered, first, second), torch.where(ordered, second, first)
        else:
            larger, smaller = torch.maximum(first, second), torch.minimum(first, second)
        return torch.stack((larger, smaller), dim=2).flatten(1, 2)
