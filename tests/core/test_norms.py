"""Balls hold what they promise: inside the radius, inside the bounds, steepest where it counts."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from modelkeep.core.errors import InputError
from modelkeep.core.norms import Ball, Norm

norms = st.sampled_from(["linf", "l2", "l1"])


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


@given(norm=norms, radius=st.floats(1e-7, 10), seed=st.integers(0, 10**6), dimension=st.integers(1, 300))
def test_exact_points_are_inside_the_ball_and_the_bounds(norm: Norm, radius: float, seed: int, dimension: int) -> None:
    ball = Ball(norm, radius, (0.0, 1.0))
    x = drawn(seed, 5, dimension)
    moved = ball.exactly(ball.project(x + 3 * radius * (drawn(seed + 1, 5, dimension) - 0.5), x), x)
    # An independent measure, in float64 from the float32 numbers that the caller gets.
    difference = (moved.double() - x.double()).abs()
    distance = difference.norm(p={"linf": float("inf"), "l2": 2, "l1": 1}[norm], dim=1)
    assert bool((distance <= radius * (1 + 1e-12)).all())
    assert 0 <= float(moved.min())
    assert float(moved.max()) <= 1


@given(norm=norms, radius=st.floats(1e-5, 10), seed=st.integers(0, 10**6), dimension=st.integers(1, 300))
def test_exactness_takes_back_no_more_than_a_rounding(norm: Norm, radius: float, seed: int, dimension: int) -> None:
    """A small radius is the hard case: there the rounding of the inputs is a large part of the ball."""
    ball = Ball(norm, radius, (0.0, 1.0))
    x = drawn(seed, 5, dimension)
    moved = ball.project(x + 3 * radius * (drawn(seed + 1, 5, dimension) - 0.5), x)
    taken_back = ball.distance(ball.exactly(moved, x), moved)
    size = 1.0 if norm == "linf" else x.norm(p=2 if norm == "l2" else 1, dim=1) + radius
    assert bool((taken_back <= 4 * torch.finfo(x.dtype).eps * size).all())


@given(norm=norms, seed=st.integers(0, 10**6))
def test_a_point_inside_stays_where_it_is(norm: Norm, seed: int) -> None:
    ball = Ball(norm, 1.0)
    x = drawn(seed, 4, 6)
    inside = x + 0.1 * (drawn(seed + 1, 4, 6) - 0.5)
    torch.testing.assert_close(ball.project(inside, x), inside)


@given(radius=st.floats(1e-3, 20), seed=st.integers(0, 10**6), dimension=st.integers(1, 60), bounded=st.booleans())
def test_the_l1_projection_is_the_nearest_point_of_ball_and_bounds(
    radius: float, seed: int, dimension: int, bounded: bool
) -> None:
    """Against the threshold found by bisection in float64; many values are at their bounds, as in pictures."""
    x = (3 * drawn(seed, 5, dimension) - 1).clamp(0, 1)
    wanted = x + 2 * drawn(seed + 1, 5, dimension) - 1
    found = Ball("l1", radius, (0.0, 1.0) if bounded else None).project(wanted, x)
    offset = (wanted - x).double()
    room = torch.where(offset > 0, 1 - x, x).double() if bounded else torch.full_like(offset, torch.inf)
    low, high = torch.zeros(5, 1).double(), offset.abs().amax(dim=1, keepdim=True)
    for _ in range(100):
        middle = (low + high) / 2
        outside = torch.minimum((offset.abs() - middle).clamp_min(0), room).sum(dim=1, keepdim=True) > radius
        low, high = torch.where(outside, middle, low), torch.where(outside, high, middle)
    nearest = x + offset.sign() * torch.minimum((offset.abs() - high).clamp_min(0), room)
    torch.testing.assert_close(found.double(), nearest, rtol=0, atol=2e-6)


@given(seed=st.integers(0, 10**6), scale=st.floats(1e-30, 1e3))
def test_the_steepest_direction_is_at_least_as_good_as_any_other(seed: int, scale: float) -> None:
    gradient = (drawn(seed, 3, 7) - 0.5) * scale
    others = drawn(seed + 1, 100, 3, 7) - 0.5
    for norm, dual in (("linf", 1), ("l2", 2), ("l1", float("inf"))):
        best = (Ball(norm, 1.0).steepest(gradient).double() * gradient.double()).sum(dim=1)  # type: ignore[arg-type]
        # Hölder: the largest inner product with a vector of unit norm is the dual norm.
        torch.testing.assert_close(best, gradient.double().norm(p=dual, dim=1), rtol=1e-5, atol=0)
        length = others.norm(p={"linf": float("inf"), "l2": 2, "l1": 1}[norm], dim=2)
        other = ((others / length[..., None]).double() * gradient.double()).sum(dim=2)
        assert bool((other <= best * (1 + 1e-5)).all())


def test_a_zero_gradient_moves_nothing() -> None:
    for norm in ("linf", "l2", "l1"):
        step = Ball(norm, 1.0).steepest(torch.zeros(2, 3))
        assert torch.equal(step, torch.zeros(2, 3))


def test_random_points_fill_the_ball_evenly() -> None:
    """In d dimensions the share of the ball within half its radius is 2^-d, in all norms."""
    x = torch.zeros(20_000, 3)
    for norm in ("linf", "l2", "l1"):
        ball = Ball(norm, 2.0)
        distance = ball.distance(ball.random_point(x, torch.Generator().manual_seed(0)), x)
        assert float(distance.max()) <= 2.0 + 1e-6
        assert float((distance < 1.0).double().mean()) == pytest.approx(1 / 8, abs=0.01)


def test_nonsense_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"The 'norm' parameter of Ball must be one of 'linf', 'l2', 'l1', 'l0'. Got 'l7' instead"
    ):
        Ball("l7", 1.0)  # type: ignore[arg-type]
    for radius in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="'radius'"):
            Ball("l2", radius)


@given(seed=st.integers(0, 10**6), radius=st.floats(0.01, 3))
def test_the_projection_onto_l1_is_the_nearest_point(seed: int, radius: float) -> None:
    """Against a slow, obvious derivation: bisection on the threshold of the soft thresholding."""
    ball, x = Ball("l1", radius), torch.zeros(4, 7)
    moved = 4 * (drawn(seed, 4, 7) - 0.5)
    low, high = torch.zeros(4, 1), moved.abs().amax(dim=1, keepdim=True)
    for _ in range(60):
        middle = (low + high) / 2
        outside = (moved.abs() - middle).clamp_min(0).sum(dim=1, keepdim=True) > radius
        low, high = torch.where(outside, middle, low), torch.where(outside, high, middle)
    inside = moved.abs().sum(dim=1, keepdim=True) <= radius
    expected = torch.where(inside, moved, moved.sign() * (moved.abs() - high).clamp_min(0))
    torch.testing.assert_close(ball.project(moved, x), expected, atol=1e-5, rtol=1e-5)


def test_l0_counts_pixels_and_keeps_the_largest_changes() -> None:
    x, moved = torch.zeros(1, 3, 2, 2), torch.zeros(1, 3, 2, 2)
    moved[0, :, 0, 0], moved[0, 1, 0, 1], moved[0, 2, 1, 1] = 0.1, 0.3, 0.2
    assert float(Ball("l0", None).distance(moved, x)) == 3
    kept = Ball("l0", 2).project(moved, x)
    assert torch.equal(kept != 0, moved > 0.15)
    assert float(Ball("l0", None).distance(torch.eye(3)[:1], torch.zeros(1, 3))) == 1


@given(norm=norms, seed=st.integers(0, 10**6), n=st.integers(1, 6))
def test_a_random_start_does_not_depend_on_the_batch(norm: Norm, seed: int, n: int) -> None:
    ball, x = Ball(norm, 1.0), drawn(seed, 7, 5)
    whole = ball.random_point(x, torch.Generator().manual_seed(seed))
    generator = torch.Generator().manual_seed(seed)
    parts = torch.cat([ball.random_point(part, generator) for part in (x[:n], x[n:])])
    torch.testing.assert_close(whole, parts)


def test_without_a_radius_only_the_bounds_count() -> None:
    ball = Ball("l2", None, (0.0, 1.0))
    assert torch.equal(ball.project(torch.tensor([[5.0, -3.0]]), torch.zeros(1, 2)), torch.tensor([[1.0, 0.0]]))
    with pytest.raises(InputError, match="needs a radius"):
        ball.random_point(torch.zeros(1, 2), torch.Generator())


@pytest.mark.parametrize(
    ("value", "slope", "stays"),
    [
        (0.0, -1.0, False),  # at the lower bound, it would go below
        (0.0, 1.0, True),  # at the lower bound, it goes up
        (1.0, 1.0, False),  # at the upper bound, it would go above
        (1.0, -1.0, True),  # at the upper bound, it goes down
        (0.5, -1.0, True),
        (0.5, 1.0, True),
    ],
)
def test_only_a_slope_that_leads_out_of_the_box_is_blocked(value: float, slope: float, stays: bool) -> None:
    x, gradient = torch.tensor([[value, 0.5]]), torch.tensor([[slope, 0.25]])
    expected = torch.tensor([[slope if stays else 0.0, 0.25]])
    assert torch.equal(Ball("l1", 1.0, (0.0, 1.0)).unblocked(x, gradient), expected)
    assert torch.equal(Ball("l1", 1.0).unblocked(x, gradient), gradient)


@pytest.mark.parametrize("side", [0.0, 1.0])
def test_a_sparse_step_is_not_spent_on_a_value_that_cannot_move(side: float) -> None:
    """The steepest value is at its bound and leads outwards: the next one moves instead, and by the whole step."""
    outwards = 2 * side - 1
    x, gradient = torch.tensor([[side, 0.5, 0.5]]), torch.tensor([[9.0 * outwards, 1.0, 0.1]])
    moved = Ball("l1", 1.0, (0.0, 1.0)).step(x, gradient, 0.3, x)
    torch.testing.assert_close(moved, torch.tensor([[side, 0.8, 0.5]]))
    inwards = Ball("l1", 1.0, (0.0, 1.0)).step(x, -gradient, 0.3, x)
    torch.testing.assert_close(inwards, torch.tensor([[side - 0.3 * outwards, 0.5, 0.5]]))
