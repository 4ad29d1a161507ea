"""LiRA's Gaussians against numpy and scipy, and its ratio against the closed form."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import norm

from modelkeep.privacy import LiRA
from modelkeep.privacy.membership import lira
from modelkeep.privacy.membership.lira import gaussians, log_density
from privacy.little_world import World


def drawn() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(6, 5, generator=generator, dtype=torch.float64)
    return values, torch.rand(6, 5, generator=generator) < 0.5


def test_each_record_has_the_mean_of_its_own_shadows_and_all_share_a_variance() -> None:
    values, chosen = drawn()
    mean, spread = gaussians(values, chosen)
    left = [values[chosen[:, i], i].numpy() for i in range(5)]
    np.testing.assert_allclose(mean, [part.mean() for part in left])
    squares = sum(((part - part.mean()) ** 2).sum() for part in left)
    np.testing.assert_allclose(spread, np.sqrt(squares / sum(len(part) - 1 for part in left)))


def test_with_many_shadows_each_record_has_its_own_variance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lira, "OWN_VARIANCE", 6)
    values, _ = drawn()
    everything = torch.ones_like(values, dtype=torch.bool)
    np.testing.assert_allclose(gaussians(values, everything)[1], values.numpy().std(axis=0, ddof=1))


def test_a_record_that_no_shadow_learned_takes_the_mean_of_all() -> None:
    values, chosen = drawn()
    chosen[:, 2] = False
    mean, spread = gaussians(values, chosen)
    assert float(mean[2]) == pytest.approx(float(values[chosen].mean()))
    assert spread.isfinite().all()


def test_the_density_is_that_of_scipy() -> None:
    value, mean, spread = (torch.tensor(v, dtype=torch.float64) for v in ([0.3, -2.0], [0.0, 1.0], [0.5, 2.0]))
    np.testing.assert_allclose(log_density(value, mean, spread), norm.logpdf(value, mean, spread))


@pytest.mark.parametrize("online", [True, False])
def test_it_finds_who_was_learned_by_heart(online: bool, world: World) -> None:
    found = LiRA(online=online)(world.model, world.members, world.non_members, world.knowledge)
    assert found.auc.low > 0.5
