"""Quantile regression knows what is usual for a record: to it, records the model never saw are ordinary."""

from __future__ import annotations

import torch

from modelkeep.privacy import Quantile
from privacy.little_world import World, gaussian_records


def test_non_members_are_as_far_from_the_expected_as_a_standard_gaussian(world: World) -> None:
    strangers = gaussian_records(600, seed=30)
    found = Quantile().score(world.model, strangers, world.knowledge, seed=0)
    assert abs(float(found.median())) < 0.4
    assert 0.6 < float(found.std()) < 1.8
    assert 0.35 < float((found > 0).double().mean()) < 0.65


def test_the_same_seed_gives_the_same_scores(world: World) -> None:
    attack = Quantile(epochs=2)
    one, two = (attack.score(world.model, world.members, world.knowledge, seed=5) for _ in range(2))
    assert torch.equal(one, two)
