"""A plan runs the cheapest first, goes deeper as the budget allows, and says of all others why they do not run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from modelkeep import Data, Model
from modelkeep.audit.cost import Cost, Pace
from modelkeep.audit.findings import Section
from modelkeep.audit.plan import Check, Depth, Plan, Step, make_plan, not_run

PACE = Pace(1.0, 0.0)
FACTOR = {"quick": 1, "standard": 3, "deep": 10}


@dataclass(frozen=True)
class Digs:
    """A check that takes so many seconds at "quick", three times as many at "standard" and ten times at "deep"."""

    seconds: float
    why: str = ""
    depth: Depth = "quick"

    def cost(self, model: Any, data: Any) -> Cost:
        return Cost(FACTOR[self.depth] * self.seconds, instead="`modelkeep dig` runs it alone.")

    def obstacle(self, model: Any, data: Any) -> str:
        return self.why

    def __call__(self, model: Any, data: Any, *, seed: int) -> Section:
        return Section("Dug", self.depth)


@pytest.fixture(scope="module")
def subject() -> tuple[Model, Data]:
    model = Model(torch.nn.Linear(2, 2), input_shape=(2,), classes=2)
    return model, Data(torch.rand(4, 2), torch.tensor([0, 1, 0, 1]), model.classes)


def _plan(subject: tuple[Model, Data], checks: dict[str, Check], minutes: float, first: tuple[str, ...] = ()) -> Plan:
    return make_plan(checks, *subject, PACE, minutes=minutes, first=first)


def test_the_cheapest_run_first_and_what_does_not_fit_says_so(subject: tuple[Model, Data]) -> None:
    plan = _plan(subject, {"long": Digs(100), "short": Digs(20), "middle": Digs(35)}, minutes=1)
    assert [(step.name, step.depth, step.seconds) for step in plan.steps] == [
        ("short", "quick", 20.5),
        ("middle", "quick", 35.5),
    ]
    (late,) = plan.left_out
    assert late.why == (
        "It would take about 2 minutes (100 passes of 1 s). The budget is 1 minute in all, of which the cheaper "
        "checks take 1 minute."
    )
    (finding,) = not_run(late).findings
    assert (finding.id, finding.status, finding.severity) == ("long.not-run", "not run", "unclear")
    assert finding.remedy == "`modelkeep dig` runs it alone."


def test_what_is_left_of_the_budget_makes_the_first_checks_deeper(subject: tuple[Model, Data]) -> None:
    """Two of ten seconds: one of them has room for "standard" (30 s), the other does not."""
    checks: dict[str, Check] = {"a": Digs(10), "b": Digs(10)}
    assert {s.name: s.depth for s in _plan(subject, checks, 45 / 60, ("b", "a")).steps} == {
        "a": "quick",
        "b": "standard",
    }
    assert {s.name: s.depth for s in _plan(subject, checks, 75 / 60).steps} == {"a": "standard", "b": "standard"}
    assert {s.name: s.depth for s in _plan(subject, checks, 202 / 60).steps} == {"a": "deep", "b": "deep"}


@dataclass(frozen=True)
class Draws:
    """A check that takes a second per example."""

    examples: int = 256

    def cost(self, model: Any, data: Any) -> Cost:
        return Cost(self.examples)

    def __call__(self, model: Any, data: Any, *, seed: int) -> Section:
        return Section("Drawn", str(self.examples))


def test_a_short_budget_takes_fewer_examples_rather_than_none(subject: tuple[Model, Data]) -> None:
    (step,) = _plan(subject, {"draws": Draws()}, minutes=2).steps
    assert step.check == Draws(examples=64)
    (late,) = _plan(subject, {"draws": Draws()}, minutes=0.5).left_out
    assert late.check == Draws(examples=256)
    assert _plan(subject, {"draws": Draws(examples=20)}, minutes=0.5).steps[0].check == Draws(examples=20)


def test_an_obstacle_is_told_and_costs_nothing(subject: tuple[Model, Data]) -> None:
    plan = _plan(subject, {"a": Digs(1e9, why="It needs the training data.")}, minutes=1)
    assert plan.steps == ()
    assert not_run(plan.left_out[0]).findings[0].measured == "It needs the training data."


def test_a_check_that_sees_more_than_the_model_gives_is_left_out(subject: tuple[Model, Data]) -> None:
    from modelkeep.audit.influence import CheckInfluence

    model, data = subject
    answers = Model.answering(lambda rows: model.logits(torch.as_tensor(rows)).softmax(1).numpy(),
                              input_shape=(2,), classes=2, bounds=(0, 1))  # fmt: skip
    (left,) = make_plan({"influence": CheckInfluence()}, answers, data, PACE, minutes=1).left_out
    assert left.why == "It needs the weights of the model, which only answers with scores."


def test_a_check_without_a_cost_always_runs(subject: tuple[Model, Data]) -> None:
    plan = _plan(subject, {"own": lambda model, data, seed: Section("Done", "It ran.")}, minutes=0.001)
    assert [(step.name, step.seconds) for step in plan.steps] == [("own", 0.0)]


@given(st.lists(st.floats(0.1, 1000), min_size=1, max_size=8), st.floats(0.01, 100))
def test_a_plan_never_exceeds_its_budget_and_loses_no_check(seconds: list[float], minutes: float) -> None:
    model = Model(torch.nn.Linear(2, 2), input_shape=(2,), classes=2)
    data = Data(torch.zeros(2, 2), torch.tensor([0, 1]), model.classes)
    checks: dict[str, Check] = {str(i): Digs(each) for i, each in enumerate(seconds)}
    plan = make_plan(checks, model, data, PACE, minutes=minutes)
    assert plan.seconds <= 60 * minutes * (1 + 1e-9)
    assert {step.name for step in (*plan.steps, *plan.left_out)} == set(checks)
    cheapest = min(seconds)
    assert bool(plan.steps) == (cheapest + 0.5 <= 60 * minutes)


def test_a_step_without_depths_has_none() -> None:
    assert Step("a", lambda model, data, seed: Section("", ""), 0.0).depth == ""
