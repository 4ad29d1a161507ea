"""Shadows: who learned what, in pairs, and the same whichever way they are trained."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from modelkeep import ModelKeepError
from modelkeep.privacy.shadows import join, plan_shadows, train_shadows
from privacy.little_world import RECIPE, gaussian_records, network


@given(st.integers(4, 60), st.integers(1, 5), st.integers(0, 9))
def test_each_pair_shares_all_records_between_it(n: int, pairs: int, seed: int) -> None:
    plan = plan_shadows(n, 2 * pairs, seed)
    inside = plan.inside(n)
    assert (inside.sum(dim=1) == n // 2).all()
    for pair in range(pairs):
        assert not (inside[2 * pair] & inside[2 * pair + 1]).any()
        assert int((inside[2 * pair] | inside[2 * pair + 1]).sum()) == 2 * (n // 2)
    assert len(set(plan.seeds)) == 2 * pairs


def test_shadows_learn_their_half_by_heart_and_not_the_other() -> None:
    data = gaussian_records(80, seed=0)
    found = train_shadows(network(), data, RECIPE, count=4, seed=0)
    right = torch.stack([model.predict(data.x) == data.y for model in found.models]).double()
    assert float(right[found.inside].mean()) > 0.97
    assert float(right[~found.inside].mean()) < 0.9


def test_a_network_that_cannot_be_stacked_is_trained_in_a_loop() -> None:
    data, recipe = gaussian_records(40, seed=0), replace(RECIPE, epochs=5)
    stacked = train_shadows(network(), data, recipe, count=2, seed=3)
    # The same steps in two halves of a batch, which the stack does not do.
    looped = train_shadows(network(), data, replace(recipe, micro_batches=2), count=2, seed=3)
    for one, two in zip(stacked.models, looped.models, strict=True):
        torch.testing.assert_close(one.probs(data.x), two.probs(data.x), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("n", "count", "message"), [(3, 2, "at least 4 records"), (10, 3, "an even number")])
def test_what_makes_no_halves_is_refused(n: int, count: int, message: str) -> None:
    with pytest.raises(ModelKeepError, match=message):
        plan_shadows(n, count, 0)


def test_joined_records_keep_their_order() -> None:
    one, two = gaussian_records(4, 0), gaussian_records(6, 1)
    both = join([one, two])
    assert torch.equal(both.x, torch.cat([one.x, two.x]))
    assert torch.equal(both.y, torch.cat([one.y, two.y]))
    assert both.features == one.features
