"""shadow-bb learns one network per class, from shadows whose members are known."""

from __future__ import annotations

import torch

from modelkeep.privacy import ShadowClassifier
from modelkeep.privacy.membership.classifier import member_logit, train_classifier
from modelkeep.privacy.membership.shadow_classifier import HIDDEN
from privacy.little_world import World


def test_a_classifier_learns_what_can_be_learned() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 2, generator=generator)
    inside = (x[:, 0] > 0).long()
    network = torch.nn.Sequential(torch.nn.Linear(2, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 2))
    fitted = train_classifier(network, x, inside, 20, seed=0)
    assert float(((member_logit(fitted, x) > 0) == (inside > 0)).double().mean()) > 0.97


def test_a_class_that_no_shadow_learned_is_answered_all_the_same(world: World) -> None:
    from modelkeep.privacy import Knowledge

    held = world.knowledge.hold_out.of_class("no")
    found = ShadowClassifier(shadows=2, epochs=1).score(
        world.model, world.members, Knowledge(held, world.knowledge.recipe), seed=0
    )
    assert found.isfinite().all()
