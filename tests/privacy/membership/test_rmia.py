"""RMIA's continuous ratio ranks as the paper's count does, and has no ties."""

from __future__ import annotations

import pytest
import torch

from modelkeep.privacy import RMIA
from privacy.little_world import World


def test_the_count_of_the_paper_grows_with_the_continuous_ratio(world: World) -> None:
    attack, held = RMIA(shadows=4, online=False), world.knowledge.hold_out
    trained = world.knowledge.shadows("rmia", world.model, held, 4, 0)
    own = attack.log_ratio(world.model, world.members, trained, None)
    population = attack.log_ratio(world.model, held, trained, trained.inside)
    for gamma in (1.0, 2.0):  # the share of z with ratio(x) / ratio(z) >= γ
        count = ((own[:, None] - population).exp() >= gamma).double().mean(dim=1)
        order = own.argsort()
        assert (count[order].diff() >= 0).all()
        assert len(set(count.tolist())) < len(set(own.tolist()))


def test_offline_the_marginal_is_the_papers_line() -> None:
    assert RMIA(offset=1.0).offset == 1.0  # then p(x) is p_out(x) itself
    with pytest.raises(ValueError, match="at least 0 and at most 1"):
        RMIA(offset=1.5)


def test_the_ratio_is_the_answer_over_the_mean_of_those_with_and_without(world: World) -> None:
    held = world.knowledge.hold_out
    trained = world.knowledge.shadows("rmia", world.model, held, 4, 0)
    found = RMIA().log_ratio(world.model, held, trained, trained.inside)
    answers = torch.stack([each.probs(held.x).double() for each in trained.models])
    for i in (0, 7, 30):
        p, y, inside = answers[:, i], int(held.y[i]), trained.inside[:, i]
        marginal = (p[inside, y].mean() + p[~inside, y].mean()) / 2
        wanted = (world.model.probs(held.x[i : i + 1])[0, y].double() / marginal).log()
        assert float(found[i]) == pytest.approx(float(wanted), rel=1e-4)


@pytest.mark.parametrize("online", [True, False])
def test_it_finds_who_was_learned_by_heart(online: bool, world: World) -> None:
    found = RMIA(online=online)(world.model, world.members, world.non_members, world.knowledge)
    assert found.auc.low > 0.5
