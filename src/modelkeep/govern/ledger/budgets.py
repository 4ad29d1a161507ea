"""Budgets: what a party's policies still allow, by what its account says that it began."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from modelkeep.core.errors import join_names
from modelkeep.govern.consent.policy import PERSONAL, PURPOSES, Policy
from modelkeep.govern.consent.state import ConsentState
from modelkeep.govern.consent.windows import at
from modelkeep.govern.ledger.attempts import key_of_intent
from modelkeep.govern.ledger.statements import Account
from modelkeep.govern.passes import Purpose


@dataclass(frozen=True)
class Budget:
    """What remains for one purpose.

    `most` passes may be begun in all (None: any number), `begun` were, and `left` remain. `now` says in words what else
    bounds the next one: rates, hours, people who must approve, a withdrawal.
    """

    purpose: Purpose
    begun: int
    most: int | None
    left: int | None
    now: tuple[str, ...]

    def values(self) -> dict[str, Any]:
        """For JSON."""
        return {"purpose": self.purpose, "begun": self.begun, "most": self.most, "left": self.left, "now": self.now}

    def __str__(self) -> str:
        """In words.

        >>> str(Budget("infer", 12, 1000, 988, ("5 a second",)))
        '12 begun of 1,000, 988 left; 5 a second'
        """
        limit = (
            f"{self.begun:,} begun, no limit"
            if self.most is None
            else (f"{self.begun:,} begun of {self.most:,}, {self.left:,} left")
        )
        return "; ".join([limit, *self.now])


def count_budgets(policies: Sequence[Policy], account: Account, state: ConsentState | None, now: float) -> list[Budget]:
    """A budget for each purpose. All policies count, so the strictest one is told."""
    return [_budget(purpose, policies, account, state, now) for purpose in PURPOSES]


def _budget(
    purpose: Purpose, policies: Sequence[Policy], account: Account, state: ConsentState | None, now: float
) -> Budget:
    limits = [policy.most[purpose] for policy in policies if purpose in policy.most]
    most = min(limits) if limits else None
    begun = account.count(purpose)
    told: list[str] = []
    reason = None if state is None else state.withdrawal(purpose)
    if reason is not None:
        told.append(f"WITHDRAWN: {reason or 'no reason given'}")
    for policy in policies:
        told += _describe_rules(purpose, policy, account, now)
        told += _describe_people(purpose, policy, state, now)
    left = None if most is None else max(0, most - begun)
    return Budget(purpose, begun, most, left, tuple(dict.fromkeys(told)))


def _describe_rules(purpose: Purpose, policy: Policy, account: Account, now: float) -> list[str]:
    if purpose not in policy.purposes:
        return ["not allowed"]
    told = []
    if policy.askers is not None:
        told.append(f"asked by {join_names(policy.askers) or 'no party'} only")
    if purpose in policy.rates:
        rate = policy.rates[purpose]
        times = {
            key_of_intent(each.values): each.time
            for each in reversed(account.intents.values())
            if each.values.get("purpose") == purpose
        }
        recent = sum(time > now - rate.seconds for time in times.values())
        told.append(f"{max(0, rate.passes - recent):,} of {rate.passes:,} in {rate.seconds:g} s free now")
    if policy.rate is not None:
        told.append(f"{policy.rate:g} a second")
    if policy.windows:
        wait = min(window.wait(now) for window in policy.windows)
        hours = join_names([str(window) for window in policy.windows])
        told.append(f"{hours} ({f'closed until {at(now + wait)}' if wait else 'open now'})")
    return told


def _describe_people(purpose: Purpose, policy: Policy, state: ConsentState | None, now: float) -> list[str]:
    told = []
    if policy.human or purpose in PERSONAL:
        left = "" if state is None else f" ({state.count_approvals(purpose, now):,} approved)"
        told.append(f"a person must approve{left}")
    if policy.board is not None:
        approved = {} if state is None else state.board.left(policy.board, purpose, now)
        people = [f"{name} {count:,}" for name, count in sorted(approved.items()) if count]
        board = f"{policy.board.needed} of {len(policy.board.approvers)} must approve"
        told.append(board if state is None else f"{board} ({', '.join(people) or 'none has'})")
    return told
