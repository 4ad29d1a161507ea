"""The tree of sums against numpy's own sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelkeep.rl.rainbow.sum_tree import SumTree


@given(size=st.sampled_from([1, 5, 64, 65, 4096, 4097, 10_000]), seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_finds_what_a_cumulative_sum_finds(size: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    tree, plain = SumTree(size), np.zeros(size)
    for _ in range(3):
        indices = random.integers(0, size, 50)
        # Whole numbers, so that sums are exact in whatever order they are taken; some are zero.
        priorities = random.integers(0, 5, 50).astype(float)
        tree.set(indices, priorities)
        plain[indices] = priorities
    assert np.array_equal(tree.priorities, plain)
    assert tree.total == plain.sum()
    if tree.total > 0:
        marks = np.append((1 - random.random(100)) * tree.total, [1.0, tree.total])
        assert np.array_equal(tree.find(marks), np.searchsorted(plain.cumsum(), marks))


def test_draws_in_proportion_to_the_priorities() -> None:
    random = np.random.default_rng(0)
    priorities = random.random(300) ** 2
    tree = SumTree(300)
    tree.set(np.arange(300), priorities)
    drawn = np.bincount(tree.find((1 - random.random(50_000)) * tree.total), minlength=300)
    expected = 50_000 * priorities / priorities.sum()
    # Pearson's statistic is 299 ± 24 in the mean.
    assert ((drawn - expected) ** 2 / expected).sum() < 400


@pytest.mark.parametrize("excess", [0.0, 1e-9], ids=["at", "beyond"])
def test_a_mark_at_or_beyond_the_total_finds_the_last_that_has_priority(excess: float) -> None:
    tree = SumTree(5000)
    tree.set(np.array([10, 4321]), np.array([0.1, 0.2]))
    assert tree.find(np.array([tree.total + excess])) == [4321]
