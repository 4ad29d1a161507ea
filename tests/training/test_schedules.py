"""Schedules against their formulas, and where they start and end."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkeep.core.errors import InputError
from modelkeep.training import ExponentialAfterHalf, Linear, Logarithmic, Step, StepDecay, at

values = st.floats(-5, 5)
positive = st.floats(1e-7, 10)
steps = st.builds(
    lambda total, share, per_epoch: Step(int(total * share), total, per_epoch),
    st.integers(1, 10_000),
    st.floats(0, 1),
    st.integers(1, 500),
)


@given(values, values, st.floats(0.1, 1), steps)
def test_linear_is_the_line_of_the_thesis(start: float, end: float, until: float, step: Step) -> None:
    t, e = step.number, until * step.total
    expected = start + (end - start) * (t / e) if t <= e else end
    assert math.isclose(Linear(start, end, until)(step), expected, abs_tol=1e-9)


@given(values, values, steps)
def test_the_exponential_of_logarithmic_moves_on_a_line(start: float, end: float, step: Step) -> None:
    line = math.exp(start) + (math.exp(end) - math.exp(start)) * step.progress
    assert math.isclose(math.exp(Logarithmic(start, end)(step)), line, rel_tol=1e-9)


def test_logarithmic_rises_faster_at_first_and_ends_where_it_should() -> None:
    rise = [Logarithmic(0.0, 1.74, until=0.5)(Step(n, 100, 10)) for n in range(0, 101, 10)]
    gains = [after - before for before, after in pairwise(rise)]
    assert rise[0] == 0
    assert gains[:5] == sorted(gains[:5], reverse=True)
    assert rise[5:] == pytest.approx([1.74] * 6)


@given(positive, positive, steps)
def test_exponential_waits_for_half_and_then_shrinks_by_equal_factors(start: float, end: float, step: Step) -> None:
    value = math.log(ExponentialAfterHalf(start, end)(step))
    over = max(0.0, (step.progress - 0.5) / 0.5)
    assert math.isclose(value, math.log(start) * (1 - over) + math.log(end) * over, abs_tol=1e-9)


@pytest.mark.parametrize(
    ("batch", "rate"),
    [(0, 5e-2), (59_999, 5e-2), (60_000, 5e-3), (89_999, 5e-3), (90_000, 5e-4), (105_000, 5e-5), (119_999, 5e-5)],
)
def test_step_decay_is_table_1_of_the_model_splitting_paper(batch: int, rate: float) -> None:
    table = StepDecay(((0, 5e-2), (60_000, 5e-3), (90_000, 5e-4), (105_000, 5e-5)))
    assert table(Step(batch, 120_000, 5000)) == rate


@given(steps)
def test_in_epochs_a_schedule_stands_still_within_an_epoch(step: Step) -> None:
    first = Step(step.epoch * step.per_epoch, step.total, step.per_epoch)
    for schedule in (Linear(0, 1, unit="epoch"), Logarithmic(0, 1, unit="epoch"), ExponentialAfterHalf(1, 2, "epoch")):
        assert schedule(step) == schedule(first)
    assert StepDecay(((0, 1.0), (2, 0.5)), unit="epoch")(step) == (1.0 if step.epoch < 2 else 0.5)


def test_a_number_is_the_constant_schedule() -> None:
    assert at(0.3, Step(7, 10, 5)) == 0.3
    assert at(Linear(0, 1), Step(7, 10, 5)) == 0.7


@pytest.mark.parametrize(
    "make",
    [
        lambda: Linear(0, 1, until=0),
        lambda: Logarithmic(0, 1, until=1.5),
        lambda: StepDecay(()),
        lambda: StepDecay(((5, 0.1),)),
        lambda: StepDecay(((0, 0.1), (9, 0.2), (9, 0.3))),
        lambda: ExponentialAfterHalf(1, 0),
    ],
)
def test_nonsense_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(InputError, match="must be"):
        make()
