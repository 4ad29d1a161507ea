"""Execution: a plan run in one process or in four, with what it gave and what it cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter

from torch import Tensor

from modelkeep.encrypt.shares.keys import Keys
from modelkeep.encrypt.shares.local import Local
from modelkeep.encrypt.shares.processes import DEALER, NAMES, run_in_processes
from modelkeep.encrypt.shares.programs import DATA_OWNER, MODEL_OWNER, Plan, Secrets, make_program
from modelkeep.encrypt.shares.ring import ShareRing
from modelkeep.encrypt.shares.traffic import Traffic


@dataclass(frozen=True, eq=False)
class Execution:
    """What was revealed; the payload that crossed; bytes on the network and the roles' memory where there were any."""

    found: list[Tensor] = field(repr=False)
    traffic: Traffic
    seconds: float
    sent: int | None = None
    memory: dict[str, int] = field(default_factory=dict)


def run_plan(
    plan: Plan, secrets: Secrets, ring: ShareRing, *, in_processes: bool = False, seed: int | None = None
) -> Execution:
    """Run a plan for all roles. `seconds` begin when the roles have met."""
    if not in_processes:
        here = Local(ring, Keys.draw() if seed is None else Keys.from_seed(seed))
        start = perf_counter()
        found = make_program(plan, secrets).run(here.run)
        seconds = perf_counter() - start
        return Execution([each for each in found if each is not None], here.traffic, seconds)
    outcomes, memory = run_in_processes(plan, secrets, ring, seed=seed)
    learns = NAMES[DATA_OWNER if plan.kind == "inference" else MODEL_OWNER]
    traffic = outcomes[NAMES[-1]].traffic
    traffic.dealt = outcomes[DEALER].traffic.dealt
    sent = sum(outcome.wire_sent for outcome in outcomes.values())
    return Execution(outcomes[learns].found, traffic, outcomes[learns].seconds, sent, memory)
