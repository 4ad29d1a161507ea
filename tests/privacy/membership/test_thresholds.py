"""The numbers of the threshold attacks against their definitions, and the thresholds against brute force."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from modelkeep.privacy import Entropy, Loss, ModifiedEntropy, Naive
from modelkeep.privacy.membership.thresholds import learn_thresholds, medians
from privacy.little_world import World

PROBS = torch.tensor([[0.7, 0.2, 0.1], [0.05, 0.9, 0.05], [0.3, 0.3, 0.4]], dtype=torch.float64)
LABELS = torch.tensor([0, 2, 1])


def test_the_advantage_of_naive_is_the_gap_of_the_accuracies(world: World) -> None:
    """As Yeom2018 has it."""
    found = Naive()(world.model, world.members, world.non_members, world.knowledge)
    inside, outside = (
        float((world.model.predict(part.x) == part.y).double().mean()) for part in (world.members, world.non_members)
    )
    assert found.advantage.value == pytest.approx(inside - outside)


def test_the_numbers_are_those_of_their_definitions() -> None:
    loss, entropy, modified = (each().measure(PROBS, LABELS) for each in (Loss, Entropy, ModifiedEntropy))
    for i, (row, label) in enumerate(zip(PROBS.tolist(), LABELS.tolist(), strict=True)):
        assert float(loss[i]) == pytest.approx(np.log(row[label]))
        assert float(entropy[i]) == pytest.approx(sum(p * np.log(p) for p in row))
        others = sum(p * np.log(1 - p) for c, p in enumerate(row) if c != label)
        assert float(modified[i]) == pytest.approx((1 - row[label]) * np.log(row[label]) + others)


def test_a_certain_answer_is_finite() -> None:
    certain = torch.tensor([[1.0, 0.0], [1.0, 1e-38]], dtype=torch.float64)
    for attack in (Loss(), Entropy(), ModifiedEntropy()):
        for label in (0, 1):
            assert attack.measure(certain, torch.tensor([label, label])).isfinite().all()


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=12))
def test_no_threshold_is_better_than_the_learned_one(drawn: list[tuple[int, bool]]) -> None:
    values = torch.tensor([float(value) for value, _ in drawn], dtype=torch.float64)
    inside = torch.tensor([kind for _, kind in drawn])
    found = learn_thresholds(values, torch.zeros(len(drawn), dtype=torch.int64), inside, ("a",))

    def gain(threshold: float) -> float:
        above = values > threshold
        return sum(
            sign * float((above & kind).sum()) / max(1, int(kind.sum())) for sign, kind in ((1, inside), (-1, ~inside))
        )

    best = max(gain(half - 3.5) for half in range(8))
    assert gain(float(found[0])) == pytest.approx(best)


def test_each_class_has_its_own_threshold_and_an_absent_one_that_of_all() -> None:
    values = torch.tensor([1.0, 2.0, 3.0, 11.0, 12.0, 13.0])
    assert medians(values, torch.tensor([0, 0, 0, 1, 1, 1]), ("a", "b", "c")).tolist() == [2.0, 12.0, 7.0]


def test_thresholds_learned_from_shadows_find_the_leak(world: World) -> None:
    found = ModifiedEntropy(shadows=4)(world.model, world.members, world.non_members, world.knowledge)
    assert found.advantage.low > 0
