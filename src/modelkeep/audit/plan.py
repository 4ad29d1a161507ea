"""Plan: which checks run, how deep each goes, and why the others do not, within a budget of time.

A check is declared in the family "check": a frozen dataclass with `__call__(model, data, *, seed) -> Section` and,
where it can, with

- `cost(model, data) -> Cost`, what it takes;
- a setting `examples`, of which it takes fewer where the budget is short;
- a setting `depth`, which says how far it goes: all checks are planned at "quick" first, the cheapest first, and what
  is left of the budget makes them deeper;
- `obstacle(model, data) -> str`, a sentence that says why it cannot run on these; empty where it can;
- settings `train` (the training data) and `file` (the model's file), which the audit fills in if it has them. A check
  whose obstacle is a missing one says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, Protocol, cast, runtime_checkable

from modelkeep.audit.cost import Cost, HasCost, Pace, tell_minutes
from modelkeep.audit.findings import Finding, Section
from modelkeep.core.access import needs_more
from modelkeep.core.data import Data
from modelkeep.core.errors import MissingExtra
from modelkeep.core.model import Model
from modelkeep.core.registry import declaration_of, require_extra

Check = Callable[..., Section]
Depth = Literal["quick", "standard", "deep"]
DEPTHS: tuple[Depth, ...] = ("quick", "standard", "deep")
FEWEST = 32  # examples below which the interval of a rate says little
_UNKNOWN = Cost(0)


@runtime_checkable
class HasObstacle(Protocol):
    """A check that says before it runs whether it can."""

    def obstacle(self, model: Model, data: Data) -> str:
        """Why it cannot run on these; empty where it can."""
        ...


@dataclass(frozen=True)
class Step:
    """A check that is planned: about how many seconds it takes, or why it does not run (`why`)."""

    name: str
    check: Check
    seconds: float
    cost: Cost = _UNKNOWN
    why: str = ""

    @property
    def depth(self) -> str:
        """How deep it goes; empty for a check with one depth only."""
        return str(getattr(self.check, "depth", ""))


@dataclass(frozen=True)
class Plan:
    """The steps that run, the cheapest first, and those that do not."""

    steps: tuple[Step, ...]
    left_out: tuple[Step, ...]
    minutes: float

    @property
    def seconds(self) -> float:
        """About how long all of it takes."""
        return sum(step.seconds for step in self.steps)


def make_plan(
    checks: Mapping[str, Check], model: Model, data: Data, pace: Pace, *, minutes: float, first: Sequence[str] = ()
) -> Plan:
    """Choose what runs within `minutes`; `first` are the checks that are made deeper before the others."""
    steps: list[Step] = []
    left_out: list[Step] = []
    for name, check in checks.items():
        step = _estimate(name, _at_depth(check, "quick"), model, data, pace)
        (left_out if step.why else steps).append(step)
    chosen: list[Step] = []
    spent = 0.0
    for step in sorted(steps, key=lambda step: step.seconds):
        fitting = _fit(step, model, data, pace, 60 * minutes - spent)
        if fitting is None:
            left_out.append(replace(step, why=_too_long(step, pace, minutes, spent)))
        else:
            chosen.append(fitting)
            spent += fitting.seconds
    order = {name: place for place, name in enumerate(first)}
    for depth in DEPTHS[1:]:
        for step in sorted(chosen, key=lambda step: order.get(step.name, len(order))):
            deeper = _estimate(step.name, _at_depth(step.check, depth), model, data, pace)
            if deeper.depth == step.depth or deeper.why or spent - step.seconds + deeper.seconds > 60 * minutes:
                continue
            chosen[chosen.index(step)] = deeper
            spent += deeper.seconds - step.seconds
    return Plan(tuple(sorted(chosen, key=lambda step: step.seconds)), tuple(left_out), minutes)


def _fit(step: Step, model: Model, data: Data, pace: Pace, seconds: float) -> Step | None:
    """The step, on fewer examples if it takes longer than this with all of them; None where few are too many."""
    while step.seconds > seconds:
        examples = getattr(step.check, "examples", None)
        if not is_dataclass(step.check) or not isinstance(examples, int) or examples <= FEWEST:
            return None
        fewer = cast(Check, replace(cast(Any, step.check), examples=max(FEWEST, examples // 2)))
        step = _estimate(step.name, fewer, model, data, pace)
    return step


def not_run(step: Step) -> Section:
    """The section of a check that does not run: why, and what would run it."""
    finding = Finding(
        id=f"{step.name}.not-run",
        severity="unclear",
        title=f"Not run: {step.name}",
        measured=step.why,
        meaning="Nothing is known about it, neither good nor bad.",
        remedy=step.cost.instead or "Give what is missing, or more time (--budget).",
        skipped=True,
    )
    return Section(f"Not run: {step.name}", step.why, findings=(finding,), check=step.name)


def _estimate(name: str, check: Check, model: Model, data: Data, pace: Pace) -> Step:
    why = _find_obstacle(check, model, data)
    if why or not isinstance(check, HasCost):
        return Step(name, check, 0.0, why=why)
    cost = check.cost(model, data)
    return Step(name, check, pace.seconds(cost), cost)


def _find_obstacle(check: Check, model: Model, data: Data) -> str:
    own = declaration_of(check)
    if own is not None and own.extra:
        try:
            require_extra(own)
        except MissingExtra as error:
            return str(error)
    if needs_more(check, model):
        return f"It needs the {own.access if own else 'weights'} of the model, which only answers with {model.access}."
    return check.obstacle(model, data) if isinstance(check, HasObstacle) else ""


def _at_depth(check: Check, depth: Depth) -> Check:
    deep = is_dataclass(check) and any(each.name == "depth" for each in fields(check))
    return cast(Check, replace(cast(Any, check), depth=depth)) if deep else check


def _too_long(step: Step, pace: Pace, minutes: float, spent: float) -> str:
    told = f"It would take about {tell_minutes(step.seconds)}"
    if step.cost.passes:
        told += f" ({step.cost.passes:,.0f} passes of {pace.per_pass:.2g} s)"
    rest = f", of which the cheaper checks take {tell_minutes(spent)}" if spent > 1 else ""
    return f"{told}. The budget is {tell_minutes(60 * minutes)} in all{rest}."
