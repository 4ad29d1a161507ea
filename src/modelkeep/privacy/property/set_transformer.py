"""Set transformer: a network whose answer does not depend on the order of a set (Lee2019; Leino2022, appendix D.2)."""

from __future__ import annotations

import math

import torch
from torch import nn

WIDTH, HEADS, POINTS, SEEDS = 128, 4, 32, 8
"""The sizes of appendix D.2; the number of inducing points is the default of the authors' code, which it refers to."""


class Attention(nn.Module):
    """MAB(q, k): q attends to k in several heads, then a residual layer of each element (Lee2019, eq. 6 and 7).

    As in the authors' code: no layer norm, one square root of the whole width, and the projected queries as residual.
    """

    def __init__(self, queries: int, keys: int, width: int = WIDTH, heads: int = HEADS) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(queries, width)
        self.key = nn.Linear(keys, width)
        self.value = nn.Linear(keys, width)
        self.out = nn.Linear(width, width)

    def forward(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        """`q: (n, a, queries)`, `k: (n, b, keys)`; gives `(n, a, width)`."""
        query, key, value = (self._split(layer(x)) for layer, x in ((self.query, q), (self.key, k), (self.value, k)))
        weights = torch.softmax(query @ key.transpose(-1, -2) / math.sqrt(self.out.in_features), dim=-1)
        mixed = (query + weights @ value).transpose(1, 2).flatten(2)
        found: torch.Tensor = mixed + torch.relu(self.out(mixed))
        return found

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        """`(n, a, width)` as `(n, heads, a, width / heads)`."""
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)


class InducedAttention(nn.Module):
    """ISAB: elements attend to a few learned points, and those to all elements (Lee2019, eq. 9 and 10)."""

    def __init__(self, features: int, width: int = WIDTH, heads: int = HEADS, points: int = POINTS) -> None:
        super().__init__()
        self.points = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, points, width)))
        self.gather = Attention(width, features, width, heads)
        self.spread = Attention(features, width, width, heads)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x: (n, a, features)`; gives `(n, a, width)`."""
        found: torch.Tensor = self.spread(x, self.gather(self.points.expand(len(x), -1, -1), x))
        return found


class Pooling(nn.Module):
    """PMA: learned seeds attend to the set, so that as many vectors come out as there are seeds (Lee2019, eq. 11)."""

    def __init__(self, width: int = WIDTH, heads: int = HEADS, seeds: int = SEEDS) -> None:
        super().__init__()
        self.seeds = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, seeds, width)))
        self.attention = Attention(width, width, width, heads)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x: (n, a, width)`; gives `(n, seeds, width)`."""
        found: torch.Tensor = self.attention(self.seeds.expand(len(x), -1, -1), x)
        return found


class SetTransformer(nn.Module):
    """rFF(SAB(PMA(ISAB(ISAB(x))))): `x: (n, a, features)`, a set of vectors each, becomes logits `(n, answers)`.

    D.2 lists the decoder from the outside in, "rFF, SAB, PMA", as Lee2019's equation 14 is written. The vectors of all
    seeds together go through the last layer, so that one vector of logits comes out.

    >>> x = torch.rand(2, 5, 16)
    >>> SetTransformer(16, 3)(x).shape
    torch.Size([2, 3])
    """

    def __init__(self, features: int, answers: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(InducedAttention(features), InducedAttention(WIDTH))
        self.pool = Pooling()
        self.among_seeds = Attention(WIDTH, WIDTH)
        self.answer = nn.Linear(SEEDS * WIDTH, answers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The logits."""
        pooled = self.pool(self.encoder(x))
        found: torch.Tensor = self.answer(self.among_seeds(pooled, pooled).flatten(1))
        return found
