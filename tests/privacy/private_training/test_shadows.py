"""Private shadows: each is a private training like any other, on a half of the pool."""

from __future__ import annotations

import torch

from modelkeep.privacy import DPSGD, RMIA, Knowledge
from modelkeep.privacy.private_training.shadows import PrivateShadows
from modelkeep.privacy.shadows import plan_shadows
from modelkeep.training import Recipe
from modelkeep.training.fresh_network import copy_untrained
from privacy.little_world import gaussian_records, network

TRAINING = DPSGD(epsilon=4.0, batch_size=20, epochs=2, accountant="rdp")


def test_a_shadow_is_what_the_training_makes_of_its_half() -> None:
    pool, target = gaussian_records(80, 0), network()
    found = PrivateShadows(TRAINING)(target, pool, Recipe(steps=1), 2, 5)
    plan = plan_shadows(80, 2, 5)
    alone = copy_untrained(target, plan.seeds[1])
    TRAINING(alone, pool.take(plan.rows[1]), seed=plan.seeds[1])
    assert found.models[1].fingerprint() == alone.fingerprint()
    assert torch.equal(found.inside.sum(dim=1), torch.tensor([40, 40]))
    assert all(model.card.guarantee is not None for model in found.models)


def test_an_attack_takes_them() -> None:
    members, others, held = (gaussian_records(40, seed) for seed in range(3))
    target = network()
    TRAINING(target, members, seed=0)
    knowledge = Knowledge(held, Recipe(steps=1), PrivateShadows(TRAINING))
    assert 0 <= RMIA(shadows=2)(target, members, others, knowledge, seed=0).auc.value <= 1
