"""F1 as scikit-learn has it, and the best guess by brute force."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from sklearn.metrics import f1_score

from modelkeep.privacy.property.score import chance, f1


def test_f1_is_scikit_learns_micro_average() -> None:
    generator = torch.Generator().manual_seed(0)
    claimed = torch.rand(30, 5, generator=generator) < 0.3
    truth = torch.randint(5, (30,), generator=generator)
    found = f1(claimed, truth)
    assert np.isclose(found.value, f1_score(np.eye(5)[truth], claimed.numpy(), average="micro"))
    assert found.low < found.value < found.high


def test_no_constant_claim_is_better_than_chance_says() -> None:
    truth = torch.arange(4)
    best = max(
        f1(torch.tensor([claim] * 4, dtype=torch.bool), truth).value for claim in itertools.product([0, 1], repeat=4)
    )
    assert np.isclose(best, chance(4))
