"""The little world, made once."""

from __future__ import annotations

import pytest

from modelkeep.privacy import Knowledge
from modelkeep.training import cross_entropy, fit
from privacy.little_world import RECIPE, World, gaussian_records, network


@pytest.fixture(scope="session")
def world() -> World:
    members, non_members, hold_out = (gaussian_records(n, seed) for seed, n in enumerate((80, 80, 160)))
    model = network()
    fit(model, members, cross_entropy, RECIPE, seed=0)
    return World(model, members, non_members, Knowledge(hold_out, RECIPE))
