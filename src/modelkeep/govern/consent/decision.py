"""ConsentDecision: how a party decides about each pass, by its policies, its approvers and its withdrawals."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from modelkeep.core.errors import ConsentPending, ConsentRefused, join_names
from modelkeep.govern.consent.approvers import ask_command, ask_webhook
from modelkeep.govern.consent.board import Approval, Board
from modelkeep.govern.consent.policy import PERSONAL, Policy, Rate
from modelkeep.govern.consent.state import ConsentState
from modelkeep.govern.passes import Pass, Purpose


class _LedgerEntry(Protocol):
    """An entry of a ledger."""

    @property
    def of(self) -> Pass: ...


class _AttemptsView(Protocol):
    """What the decision needs of the attempts in the party's ledger."""

    @property
    def next_number(self) -> int: ...
    def has_begun(self, of: Pass) -> bool: ...
    def count(self, of: Pass) -> int: ...
    def begun_at(self, purpose: str) -> Sequence[float]: ...


class _LedgerView(Protocol):
    """What the decision needs of the party's ledger."""

    @property
    def attempts(self) -> _AttemptsView: ...
    @property
    def length(self) -> int: ...
    @property
    def committed(self) -> int: ...
    def entry(self, number: int) -> _LedgerEntry: ...
    def event(self, kind: str, text: str, **values: Any) -> object: ...


class ConsentDecision:
    """Decides for one party. All its policies must allow a pass: the agreement's and its own stricter one.

    A pass that is asked for again after a fault (its digest is the same) is decided again by the rules without memory
    and by the withdrawals; it is not counted, spent, or shown to an approver a second time. Any number of threads may
    ask.

    Args:
        policies: The policies.
        state: What was withdrawn and approved.
        party: The party's name.
        ledger: The party's ledger: what it has taken part in is counted there.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        policies: Sequence[Policy],
        state: ConsentState,
        party: str,
        ledger: _LedgerView,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._policies = tuple(policies)
        self._state = state
        self._party = party
        self._ledger = ledger
        self._clock = clock
        self._noting = threading.Lock()
        self._remembers = any(one.command or one.webhook or one.human or one.rate or one.board for one in policies)

    @property
    def takes_long(self) -> bool:
        """Whether a decision may wait for a command or for another server."""
        return any(policy.command is not None or policy.webhook is not None for policy in self._policies)

    def decide(self, of: Pass) -> None:
        """Return, or raise ConsentRefused or ConsentPending with the reason.

        What costs least is asked first, and the rate last: a pass refused by another rule takes nothing from it.
        """
        self.note_changes()
        self.require_not_withdrawn(of)
        for policy in self._policies:
            policy.check(of, self._clock())
        self._require_unchanged(of)
        for policy in self._policies:
            if of.purpose in policy.most:
                self._count(of, policy.most[of.purpose])
        if self._ledger.attempts.has_begun(of):
            return  # it was granted before, and brings nothing new
        for policy in self._policies:
            if of.purpose in policy.rates:
                self._wait_for_rate(of, policy.rates[of.purpose])
        if self._remembers or of.purpose in PERSONAL:
            self._state.forget(self._ledger.length)
            for policy in self._policies:
                self._approve(of, policy)
            for policy in self._policies:
                self._rate(of, policy)
            self.require_not_withdrawn(of)  # an approver may have taken a while

    def withdrawal(self, purpose: Purpose) -> str | None:
        """The reason of a withdrawal; None where consent is not withdrawn."""
        return self._state.withdrawal(purpose)

    def require_not_withdrawn(self, of: Pass) -> None:
        """Refuse a pass for a purpose for which consent is withdrawn."""
        self._require_not_withdrawn(of, self._state.withdrawal(of.purpose))

    def _require_not_withdrawn(self, of: Pass, reason: str | None) -> None:
        if reason is not None:
            raise ConsentRefused(
                f"'{self._party}' has withdrawn its consent to {of.purpose}: {reason or 'no reason given'}. It "
                f"refuses {of} and all others until it says: modelkeep govern restore"
            )

    @contextmanager
    def hold(self, of: Pass) -> Iterator[None]:
        """Refuse a pass for which consent is withdrawn; meanwhile no consent can be withdrawn.

        So a withdrawal that is written down comes either after what is done here, or before it, and then prevents it.
        """
        with self._state.holding(of.purpose) as reason:
            self._require_not_withdrawn(of, reason)
            yield

    def note_changes(self) -> None:
        """Copy what a person has changed into the ledger's events; one that is killed in between copies it again."""
        with self._noting:
            for change in self._state.changes():
                self._ledger.event(change.kind, change.text, time=change.time, change=change.id)
                self._state.forget_change(change)

    def _require_unchanged(self, of: Pass) -> None:
        """Refuse a pass in the place of one that is committed, unless it is that one, which runs again."""
        if of.number < self._ledger.committed and (first := self._ledger.entry(of.number).of) != of:
            raise ConsentRefused(f"No consent to {of}: the ledger of '{self._party}' has {first} with other details.")

    def _count(self, of: Pass, most: int) -> None:
        """Refuse what is over the limit: every pass that was begun counts, also one that was given up.

        Passes that were asked for and have not begun yet might all be for this purpose.
        """
        attempts = self._ledger.attempts
        count = attempts.count(of)
        if count >= most:
            raise ConsentRefused(
                f"No consent to {of}: {count} passes to {of.purpose} were begun, and {most} are allowed under this "
                "agreement. More need a new agreement."
            )
        under_way = max(0, of.number - max(self._ledger.length, attempts.next_number))
        if count + under_way >= most:
            raise ConsentPending(
                f"No consent to {of} yet: {count} passes to {of.purpose} were begun, {most} are allowed, and "
                f"{under_way} before it are not recorded yet. Ask again when they are."
            )

    def _approve(self, of: Pass, policy: Policy) -> None:
        if policy.command is not None:
            name = f"command {json.dumps(policy.command)}"
            if not self._state.is_granted(of, name):
                ask_command(policy.command, of, policy.timeout)
                self._state.grant(of, name)
        if policy.webhook is not None:
            name = f"webhook {policy.webhook}"
            if not self._state.is_granted(of, name):
                ask_webhook(policy.webhook, policy.webhook_token_env, of, policy.timeout)
                self._state.grant(of, name)
        decided = of.asker == self._party or any(one.board for one in self._policies)  # by who asks, or by the board
        personal = of.purpose in PERSONAL and not decided
        if (policy.human or personal) and not self._state.spend(of, self._clock()):
            raise ConsentPending(
                f"No consent to {of} yet: it waits for a person at '{self._party}', who may say: "
                f"modelkeep govern approve --purpose {of.purpose}"
            )

        if policy.board is not None and not self._state.is_granted(of, policy.board.name):
            self._ask_board(of, policy.board)

    def _ask_board(self, of: Pass, board: Board) -> None:
        def record(approvals: Sequence[Approval]) -> None:
            about = {"pass": of.digest, "number": of.number, "purpose": of.purpose, "step": of.step}
            told = [approval.values() for approval in approvals]
            text = f"{of} has the approval of {join_names([each.approver for each in approvals])}."
            self._ledger.event("board", text, **about, asker=of.asker, board=board.name, approvals=told)

        enough, people = self._state.board.spend(of, board, self._party, self._clock(), record)
        if not enough:
            others = join_names(sorted(set(board.approvers) - set(people)))
            raise ConsentPending(
                f"No consent to {of} yet: {len(people)} of the board of '{self._party}' have approved it, and "
                f"{board.needed} must. Of {others}, one may say: "
                f"modelkeep govern approve --purpose {of.purpose} --as NAME --key FILE"
            )

    def _wait_for_rate(self, of: Pass, rate: Rate) -> None:
        wait = rate.wait(self._ledger.attempts.begun_at(of.purpose), self._clock())
        if wait:
            raise ConsentPending(
                f"No consent to {of} for another {wait:,.1f} seconds: {rate.passes} passes to {of.purpose} in "
                f"{rate.seconds:g} seconds are allowed, and they were begun.",
                seconds=wait,
            )

    def _rate(self, of: Pass, policy: Policy) -> None:
        if policy.rate is None:
            return
        wait = self._state.take(of, policy.rate, policy.burst, self._clock())
        if wait:
            raise ConsentPending(
                f"No consent to {of} for another {wait:.3g} seconds: {policy.rate:g} passes per second are allowed, "
                f"{policy.burst} at once after a pause.",
                seconds=wait,
            )
