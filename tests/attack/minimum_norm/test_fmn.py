"""FMN comes within a few percent of the smallest change in every norm where there is a closed form."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attack.linear_models import data_for, linear_model
from modelkeep.attack.minimum_norm.fmn import FMN, _shrunk
from modelkeep.core.errors import InputError
from modelkeep.core.norms import AnyNorm, Ball

DUALS: dict[AnyNorm, float] = {"linf": 1, "l2": 2, "l1": math.inf}


@pytest.mark.parametrize("norm", DUALS)
def test_on_a_linear_model_it_finds_the_boundary(norm: AnyNorm) -> None:
    """Of two classes; among more, the way is to the one with the best score, which need not be the nearest."""
    model = linear_model((1, 3, 4), 2)
    data = data_for(model)
    w: torch.Tensor = model.module.get_parameter("1.weight").detach()
    length: torch.Tensor = (w[0] - w[1]).norm(p=DUALS[norm])
    logits = model.logits(data.x)
    distance = (logits[:, 0] - logits[:, 1]).abs() / length
    found = FMN(norm=norm)(model, data, seed=0)
    assert found.success.all()
    ratio = (found.distance / distance)[distance > 0.1 * distance.median()]
    assert float(ratio.min()) > 0.999
    assert float(ratio.median()) < 1.01
    assert float(ratio.quantile(0.9)) < 1.05


def test_in_l0_it_changes_about_as_few_values_as_the_bounds_allow() -> None:
    """With two classes, the fewest are those whose gains up to their bounds are the largest."""
    model = linear_model((1, 3, 4), 2, (0.0, 1.0))
    data = data_for(model)
    w = model.module.get_parameter("1.weight").detach()
    logits = model.logits(data.x)
    away = (w[1] - w[0]) * (1 - 2 * data.y[:, None])
    gains = (away * torch.where(away > 0, 1 - data.x.flatten(1), -data.x.flatten(1))).sort(dim=1, descending=True)
    margin = (logits[:, 0] - logits[:, 1]).abs()
    possible = gains.values.sum(dim=1) > margin + 0.01
    fewest = (gains.values.cumsum(dim=1) < margin[:, None]).sum(dim=1) + 1
    found = FMN(norm="l0")(model, data, seed=0)
    assert int(possible.sum()) > 30
    assert found.success[possible].double().mean() > 0.95
    more = (found.distance - fewest)[possible & found.success]
    assert bool((more >= 0).all())
    assert float((more == 0).double().mean()) > 0.8
    assert float(more.max()) <= 2


@pytest.mark.parametrize("norm", [*DUALS, "l0"])
def test_bounds_target_and_mask_are_kept(norm: AnyNorm) -> None:
    model = linear_model((1, 3, 4), bounds=(0.0, 1.0))
    data = data_for(model)
    mask = torch.ones(1, 3, 4, dtype=torch.bool)
    mask[:, 0] = False
    found = FMN(norm=norm, target="2", mask=mask, steps=60)(model, data, seed=0)
    assert torch.equal(found.success, found.after == 2)
    assert int((found.success & (found.before != 2)).sum()) > 5
    assert torch.equal(found.adversarial[:, :, 0], data.x[:, :, 0])
    assert found.adversarial.min() >= 0
    assert found.adversarial.max() <= 1


@pytest.mark.parametrize("norm", [*DUALS, "l0"])
@given(seed=st.integers(0, 10**6), shape=st.sampled_from([(7,), (2, 3, 2)]), radius=st.integers(1, 5))
def test_a_change_is_shrunk_to_each_radius_as_the_ball_does_it(
    norm: AnyNorm, seed: int, shape: tuple[int, ...], radius: int
) -> None:
    change = torch.randn(3, *shape, generator=torch.Generator().manual_seed(seed))
    radii = torch.tensor([radius, 1.0, torch.inf])
    shrunk = _shrunk(change, radii, norm)
    zero = torch.zeros_like(change)
    for i in (0, 1):
        expected = Ball(norm, float(radii[i])).project(change[[i]], zero[[i]])
        torch.testing.assert_close(shrunk[[i]], expected, rtol=1e-4, atol=1e-5)
    assert torch.equal(shrunk[2], change[2])


def test_nonsense_is_refused() -> None:
    model = linear_model((1, 3, 4))
    data = data_for(model)
    with pytest.raises(InputError, match="'steps' parameter of FMN"):
        FMN(steps=0)(model, data, seed=0)
    with pytest.raises(InputError, match="'step_size' parameter of FMN"):
        FMN(step_size=0.0)(model, data, seed=0)
    with pytest.raises(InputError, match="'gamma' parameter of FMN"):
        FMN(gamma=0.0)(model, data, seed=0)
