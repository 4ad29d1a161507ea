"""A tree of sums over priorities: draws in proportion to them, without adding all of them up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# A node is the sum of this many children. Two children, as in the usual sum tree, would need 17 levels for 100,000
# priorities and so 17 times the handful of numpy calls that a level takes; with 64 children three levels suffice.
_CHILDREN = 64


class SumTree:
    """`size` priorities of zero at first.

    >>> tree = SumTree(1000)
    >>> tree.set(np.array([3, 900]), np.array([1.0, 3.0]))
    >>> tree.total
    4.0
    >>> tree.find(np.array([0.5, 1.5, 3.9]))
    array([  3, 900, 900])
    """

    def __init__(self, size: int) -> None:
        self.size = size
        nodes = [-(-size // _CHILDREN) * _CHILDREN]  # how many are in each level, the leaves first
        while nodes[0] > _CHILDREN:
            above = -(-nodes[0] // _CHILDREN)
            nodes.insert(0, -(-above // _CHILDREN) * _CHILDREN)
        # The top level's nodes are the children of one root, which is not stored.
        self._levels = [np.zeros((count // _CHILDREN, _CHILDREN)) for count in nodes]

    @property
    def total(self) -> float:
        """The sum of all priorities."""
        return float(self._levels[0].sum())

    @property
    def priorities(self) -> NDArray[np.float64]:
        """All priorities, `(size,)`, to be read only."""
        return self._levels[-1].reshape(-1)[: self.size]

    def set(self, indices: NDArray[np.int64], priorities: NDArray[np.float64]) -> None:
        """Give these indices these priorities (of an index that comes twice, the later one counts)."""
        self._levels[-1].reshape(-1)[indices] = priorities
        # Sums are made anew from the children rather than changed by a difference, so that no error builds up.
        for below, level in zip(self._levels[:0:-1], self._levels[-2::-1], strict=True):
            indices = indices // _CHILDREN
            level.reshape(-1)[indices] = below[indices].sum(axis=1)

    def find(self, marks: NDArray[np.float64]) -> NDArray[np.int64]:
        """For each mark in (0, total]: the first index up to which the priorities sum to at least the mark."""
        rows, node, rest = np.arange(len(marks)), np.zeros(len(marks), dtype=np.int64), marks
        for level in self._levels:
            sums = level[node].cumsum(axis=1)
            # A mark may exceed the last sum by a rounding error: then the last child that has any priority is meant.
            rest = np.minimum(rest, sums[:, -1])
            child = (sums < rest[:, None]).sum(axis=1)
            rest = rest - sums[rows, child - 1] * (child > 0)
            node = node * _CHILDREN + child
        return node
