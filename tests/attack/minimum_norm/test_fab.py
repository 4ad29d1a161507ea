"""FAB's projections are exact, and it finds the nearest point of the boundary where there is a closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, linprog, minimize
from torch import nn

from attack.linear_models import data_for, linear_model
from modelkeep import Data, Model
from modelkeep.attack.frame import carry_out
from modelkeep.attack.minimum_norm.fab import FAB
from modelkeep.attack.minimum_norm.hyperplane import onto_hyperplane
from modelkeep.core.errors import InputError
from modelkeep.core.norms import Ball, Norm

Array = np.ndarray[tuple[int], np.dtype[np.float64]]
DUALS: dict[Norm, float] = {"linf": 1, "l2": 2, "l1": math.inf}


def distances(model: Model, data: Data, dual: float) -> torch.Tensor:
    """To the nearest of the boundaries between the label's class and the others."""
    w: torch.Tensor = model.module.get_parameter("1.weight").detach()
    logits = model.logits(data.x)
    ahead = logits.gather(1, data.y[:, None]) - logits
    lengths: torch.Tensor = (w[data.y][:, None] - w).norm(p=dual, dim=2)
    return (ahead / lengths).scatter(1, data.y[:, None], torch.inf).amin(dim=1)


def squared(change: Array) -> float:
    return float(change @ change)


def by_scipy(x: Array, normal: Array, missing: float, norm: Norm) -> float | None:
    """The length of the smallest change in the unit box, by solvers that know nothing of ours; None if they fail."""
    k, room = len(x), [(-value, 1 - value) for value in x]
    if norm == "l2":
        near = minimize(
            squared,
            np.zeros(k),
            method="SLSQP",
            bounds=Bounds(-x, 1 - x),
            constraints=LinearConstraint(normal[None], missing, missing),
            tol=1e-14,
        )
        return float(np.sqrt(near.fun)) if near.success else None
    # d = p - q with p, q ≥ 0; in l∞ a last variable bounds them all.
    if norm == "l1":
        cost, extra, columns = np.ones(2 * k), None, [normal, -normal]
    else:
        cost = np.r_[np.zeros(2 * k), 1.0]
        extra = np.c_[np.eye(2 * k), -np.ones(2 * k)]
        columns = [normal, -normal, np.zeros(1)]
    limits = [*((0, up) for _, up in room), *((0, -down) for down, _ in room), *([(0, None)] if norm == "linf" else [])]
    solved = linprog(
        cost,
        A_ub=extra,
        b_ub=None if extra is None else np.zeros(2 * k),
        A_eq=np.concatenate(columns)[None],
        b_eq=[missing],
        bounds=limits,
    )
    return None if solved.fun is None else float(solved.fun)


@pytest.mark.parametrize("norm", DUALS)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 6), share=st.floats(-0.98, 0.98), zeros=st.booleans())
def test_the_projection_is_the_one_that_scipy_finds(
    norm: Norm, seed: int, size: int, share: float, zeros: bool
) -> None:
    random = np.random.default_rng(seed)
    x, normal = random.random(size), random.standard_normal(size)
    x[random.random(size) < 0.3] = random.integers(2)  # values at their bounds
    if zeros:
        normal[random.random(size) < 0.4] = 0.0
    # A share of what the box allows in this direction at all.
    most = np.where(np.sign(share) * normal > 0, 1 - x, x) @ np.abs(normal)
    missing = share * float(most)
    rows = torch.tensor(np.stack([x, normal]))[:, None]
    missing_row = torch.tensor([missing], dtype=torch.float64)
    change = onto_hyperplane(rows[0], rows[1], missing_row, norm, (0.0, 1.0))[0].numpy()
    assert normal @ change == pytest.approx(missing, abs=1e-9)
    assert (x + change).min() >= -1e-12
    assert (x + change).max() <= 1 + 1e-12
    expected = by_scipy(x, normal, missing, norm)
    length = {"linf": np.abs(change).max(), "l2": np.sqrt(change @ change), "l1": np.abs(change).sum()}[norm]
    if expected is not None:  # SLSQP gives up now and then
        assert length == pytest.approx(expected, abs=2e-6)
    else:
        assert norm == "l2"


@pytest.mark.parametrize("norm", DUALS)
@given(seed=st.integers(0, 10**6))
def test_without_bounds_the_projection_is_the_closed_form(norm: Norm, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x, normal = torch.randn(2, 5, 7, generator=generator, dtype=torch.float64)
    missing = torch.randn(5, generator=generator, dtype=torch.float64)
    change = onto_hyperplane(x, normal, missing, norm, None)
    torch.testing.assert_close((normal * change).sum(dim=1), missing)
    expected: torch.Tensor = missing.abs() / normal.norm(p=DUALS[norm], dim=1)
    length: torch.Tensor = change.norm(p={"linf": math.inf, "l2": 2, "l1": 1}[norm], dim=1)
    torch.testing.assert_close(length, expected)


@pytest.mark.parametrize("norm", DUALS)
def test_where_the_box_misses_the_hyperplane_it_goes_to_the_nearest_corner(norm: Norm) -> None:
    x, normal = torch.tensor([[0.3, 0.6, 0.5]]), torch.tensor([[1.0, -2.0, 0.0]])
    change = onto_hyperplane(x, normal, torch.tensor([9.0]), norm, (0.0, 1.0))
    torch.testing.assert_close(x + change, torch.tensor([[1.0, 0.0, 0.5]]))
    flat = onto_hyperplane(x, torch.zeros(1, 3), torch.tensor([9.0]), norm, (0.0, 1.0))
    assert torch.equal(flat, torch.zeros(1, 3))
    tiny = onto_hyperplane(x, 1e-30 * normal, torch.tensor([1e-31]), norm, (0.0, 1.0))
    torch.testing.assert_close(tiny, onto_hyperplane(x, normal, torch.tensor([0.1]), norm, (0.0, 1.0)))


@pytest.mark.parametrize("classes", [2, 3, 12])
@pytest.mark.parametrize("norm", DUALS)
def test_on_a_linear_model_it_finds_the_nearest_boundary(norm: Norm, classes: int) -> None:
    model = linear_model((1, 3, 4), classes)
    data = data_for(model)
    found = FAB(norm=norm, steps=20, targets=11)(model, data, seed=0)
    assert found.success.all()
    distance = distances(model, data, DUALS[norm])
    clear = distance > 0.1 * distance.median()  # at the boundary itself, rounding is a large part of the way
    ratio = (found.distance / distance)[clear]
    assert float(ratio.min()) > 0.999
    assert float(ratio.max()) < 1.01


@pytest.mark.parametrize("norm", DUALS)
def test_bounds_target_and_mask_are_kept(norm: Norm) -> None:
    model = linear_model((1, 3, 4), bounds=(0.0, 1.0))
    data = data_for(model)
    mask = torch.ones(1, 3, 4, dtype=torch.bool)
    mask[:, 0] = False
    found = FAB(norm=norm, target="2", mask=mask, steps=20)(model, data, seed=0)
    assert torch.equal(found.success, found.after == 2)
    assert int((found.success & (found.before != 2)).sum()) > 5
    assert torch.equal(found.adversarial[:, :, 0], data.x[:, :, 0])
    assert found.adversarial.min() >= 0
    assert found.adversarial.max() <= 1


def test_within_a_radius_what_is_solved_costs_nothing_more() -> None:
    model = linear_model()
    data = data_for(model)
    radius = float(distances(model, data, 2).median())
    searches = [FAB(steps=30, targets=2)]
    found = carry_out(model, data, searches, attack="FAB-T", ball=Ball("l2", radius, None), seed=0)
    clear = (distances(model, data, 2) - radius).abs() > 0.02 * radius
    assert torch.equal(found.success[clear], (distances(model, data, 2) < radius)[clear])
    everything = FAB(norm="l2", steps=30, targets=2)(model, data, seed=0)
    assert found.gradients < 0.7 * everything.gradients
    assert everything.accuracy_at(radius).value == pytest.approx(found.robust_accuracy.value, abs=0.05)


def test_a_curved_boundary_is_followed_to_the_nearest_point() -> None:
    class Disc(nn.Module):
        """One class within the unit circle around (0.5, 0), the other outside: the distance is 1 - |x - centre|."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            inside = 1 - (x - torch.tensor([0.5, 0.0])).square().sum(dim=1)
            return torch.stack([inside, -inside], dim=1)

    model = Model(Disc(), input_shape=(2,), classes=2, bounds=None)
    angle = torch.linspace(0, 6, 20)
    depth = torch.linspace(0.2, 0.9, 20)
    x = torch.tensor([0.5, 0.0]) + depth[:, None] * torch.stack([angle.cos(), angle.sin()], dim=1)
    found = FAB(norm="l2")(model, Data(x, torch.zeros(20, dtype=torch.int64), model.classes), seed=0)
    torch.testing.assert_close(found.distance.float(), 1 - depth, rtol=0.02, atol=0.002)


def test_nonsense_is_refused() -> None:
    model = linear_model()
    data = data_for(model)
    with pytest.raises(InputError, match="'steps' parameter of FAB"):
        FAB(steps=0)(model, data, seed=0)
    with pytest.raises(InputError, match="'targets' parameter of FAB"):
        FAB(targets=0)(model, data, seed=0)
    with pytest.raises(InputError, match=r"'norm' parameter of FAB must be one of 'linf', 'l2', 'l1'\. Got 'l0'"):
        FAB(norm="l0")
