"""Loss curves: what it costs to reach a loss, against closed forms and by going through all steps."""

from __future__ import annotations

from math import ceil, exp, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkeep.completion.curve import Curve, ratio
from modelkeep.core.errors import InputError

# Whole numbers and α of few bits, so that thresholds are exact and rescaling changes no comparison.
LOSSES = st.lists(st.integers(0, 64), min_size=2, max_size=20)
ALPHAS = st.sampled_from([0.25, 0.5, 0.75, 1.0])


def _curve(losses: list[int]) -> Curve:
    return Curve(tuple(range(0, 10 * len(losses), 10)), tuple(map(float, losses)))


def _decay(rate: float, start: float = 1.0, floor: float = 0.1, steps: int = 1000, grid: int = 5) -> Curve:
    """L(t) = floor + (start − floor)·exp(−rate·t)."""
    times = tuple(range(0, steps + 1, grid))
    return Curve(times, tuple(floor + (start - floor) * exp(-rate * t) for t in times))


@pytest.mark.parametrize("alpha", [0.5, 0.8, 0.9])
@pytest.mark.parametrize(("rate", "start"), [(0.05, 1.0), (0.02, 0.7), (0.011, 0.95), (0.004, 1.0)])
def test_the_ratio_of_exponential_decays_is_that_of_the_formula(alpha: float, rate: float, start: float) -> None:
    original_rate, floor, grid = 0.01, 0.1, 5
    best = floor + 0.9 * exp(-original_rate * 1000)
    threshold = alpha * best + (1 - alpha) * 1.0

    def cost(rate: float, start: float) -> int:
        """When the decay crosses the threshold, rounded up to the grid."""
        return grid * ceil(max(0.0, log((start - floor) / (threshold - floor)) / rate) / grid)

    expected = cost(rate, start) / cost(original_rate, 1.0)
    found = ratio(_decay(original_rate), _decay(rate, start), alpha)
    assert found.raw == pytest.approx(expected, abs=0)
    assert found.value == pytest.approx(min(1.0, expected), abs=0)


def test_the_hardness_at_eighty_percent_may_be_less_than_at_fifty() -> None:
    # Half of the progress came at once, the next thirty percent slowly; the retraining gets both soon.
    original = Curve((0, 10, 50, 100, 200), (1.0, 0.5, 0.4, 0.15, 0.0))
    retrained = Curve((0, 5, 20, 100), (0.9, 0.5, 0.15, 0.0))
    assert ratio(original, retrained, 0.5).value == 0.5
    assert ratio(original, retrained, 0.8).value == 0.2
    assert ratio(original, retrained, 1.0).value == 0.5


@given(LOSSES, st.integers(-1, 65))
def test_the_cost_is_the_first_step_at_or_below_the_loss(losses: list[int], loss: int) -> None:
    reached = [10 * i for i in range(len(losses)) if losses[i] <= loss]
    assert _curve(losses).cost(loss) == (reached[0] if reached else None)


@given(LOSSES, LOSSES, ALPHAS)
def test_the_ratio_is_a_share(first: list[int], second: list[int], alpha: float) -> None:
    original = _curve([65, *first])
    found = ratio(original, _curve(second), alpha)
    assert 0 <= found.value <= 1
    assert found.censored == (min(second) > original.threshold(alpha))


@given(LOSSES, st.lists(st.tuples(st.integers(0, 64), st.integers(0, 8)), min_size=2, max_size=20), ALPHAS)
def test_a_retraining_that_is_nowhere_worse_is_not_harder(
    first: list[int], second: list[tuple[int, int]], alpha: float
) -> None:
    original = _curve([65, *first])
    worse, better = _curve([loss for loss, _ in second]), _curve([loss - gain for loss, gain in second])
    assert ratio(original, better, alpha).value <= ratio(original, worse, alpha).value


@given(LOSSES, LOSSES, ALPHAS, st.integers(1, 8), st.integers(-20, 20))
def test_hardness_does_not_depend_on_the_unit_of_the_loss(
    first: list[int], second: list[int], alpha: float, scale: int, shift: int
) -> None:
    def scaled(losses: list[int]) -> Curve:
        return _curve([scale * loss + shift for loss in losses])

    assert ratio(scaled([65, *first]), scaled(second), alpha) == ratio(_curve([65, *first]), _curve(second), alpha)


def test_a_run_that_was_lost_before_it_got_there_counts_as_from_scratch() -> None:
    original = Curve((0, 10, 20), (1.0, 0.5, 0.0))
    found = ratio(original, Curve((0, 5), (0.9, 0.4)), 1.0)
    assert found.censored
    assert found.value == 1.0


def test_a_retraining_that_starts_good_enough_costs_nothing() -> None:
    assert ratio(Curve((0, 10), (1.0, 0.0)), Curve((0,), (0.5,)), 0.5).value == 0.0


def test_an_original_that_learnt_nothing_cannot_be_completed() -> None:
    with pytest.raises(InputError, match="nothing to complete"):
        ratio(Curve((0, 1), (0.5, 0.5)), Curve((0, 1), (0.5, 0.1)), 1.0)


def test_the_loss_to_reach_is_that_of_the_model_to_complete() -> None:
    """An owner with 27.6 % error was told that nothing is faster, because a fresh run got to 6.7 %."""
    fresh = Curve((0, 100, 200, 300), (0.9, 0.276, 0.1, 0.067))
    again = Curve((0, 10, 300), (0.8, 0.276, 0.2))
    assert ratio(fresh, again, 1.0).censored
    found = ratio(fresh, again, 1.0, own=0.276)
    assert (found.value, found.censored, found.short) == (0.1, False, False)
    assert fresh.threshold(0.5, 0.276) == pytest.approx((0.9 + 0.276) / 2)
    # A fresh run that ends before it is as good costs at least all its steps.
    better = ratio(fresh, Curve((0, 150), (0.8, 0.01)), 1.0, own=0.02)
    assert (better.value, better.short) == (0.5, True)
    with pytest.raises(InputError, match="nothing to complete"):
        ratio(fresh, again, 1.0, own=0.9)
