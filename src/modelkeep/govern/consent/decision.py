"""ConsentDecision: how a party decides about each pass, by its policies, its approvers and its withdrawals."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from modelkeep.core.errors import ConsentPending, ConsentRefused
from modelkeep.core.signing import Signer
from modelkeep.govern.consent.approvers import ask_command, ask_webhook
from modelkeep.govern.consent.policy import Policy
from modelkeep.govern.consent.state import ConsentState
from modelkeep.govern.passes import Consent, Pass, Purpose


class _LedgerEntry(Protocol):
    """An entry of a ledger."""

    @property
    def of(self) -> Pass: ...


class _LedgerView(Protocol):
    """What the decision needs of the party's ledger."""

    @property
    def length(self) -> int: ...

    @property
    def committed(self) -> int: ...

    def entry(self, number: int) -> _LedgerEntry: ...

    def entries(self, start: int = 0) -> Iterable[_LedgerEntry]: ...

    def passes(self, purpose: Purpose | None = None, asker: str | None = None) -> int: ...

    def head(self, number: int) -> str: ...

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
        signer: The party's key.
        ledger: The party's ledger: what it has taken part in is counted there.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        policies: Sequence[Policy],
        state: ConsentState,
        party: str,
        signer: Signer,
        ledger: _LedgerView,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._policies = tuple(policies)
        self._state = state
        self._party = party
        self._signer = signer
        self._ledger = ledger
        self._clock = clock
        self._noting = threading.Lock()
        self._remembers = any(one.command or one.webhook or one.human or one.rate for one in policies)

    def give(self, of: Pass) -> Consent:
        """Decide, and sign the consent."""
        self.decide(of)
        return Consent.give(of, self._party, self._ledger.head(of.number - 2), self._signer)

    def decide(self, of: Pass) -> None:
        """Return, or raise ConsentRefused or ConsentPending with the reason.

        What costs least is asked first, and the rate last: a pass refused by another rule takes nothing from it.
        """
        self._note()
        self.require_not_withdrawn(of)
        for policy in self._policies:
            policy.check(of, self._clock())
        replaced = self._from(of)
        if replaced[:1] == [of]:
            return
        for policy in self._policies:
            if of.purpose in policy.most:
                self._count(of, policy.most[of.purpose], replaced)
        if self._remembers:
            self._state.forget(self._ledger.length)
            for policy in self._policies:
                self._approve(of, policy)
            for policy in self._policies:
                self._rate(of, policy)
            self.require_not_withdrawn(of)  # an approver may have taken a while

    def require_not_withdrawn(self, of: Pass) -> None:
        """Refuse a pass for a purpose for which consent is withdrawn."""
        reason = self._state.withdrawal(of.purpose)
        if reason is not None:
            raise ConsentRefused(
                f"'{self._party}' has withdrawn its consent to {of.purpose}: {reason or 'no reason given'}. It "
                f"refuses {of} and all others until it says: modelkeep govern restore"
            )

    def count_unfinished(self, of: Pass) -> None:
        """Count a pass that broke off after something had crossed; another pass may take its place in the ledger.

        Otherwise an asker could let one pass after another break off, however few are allowed. A pass of the training
        does not count: it is made again, and its inputs follow from its step.
        """
        if of.purpose != "train" and any(of.purpose in policy.most for policy in self._policies):
            self._state.break_off(of)

    def _note(self) -> None:
        """Copy what a person has changed into the ledger's events; one that is killed in between copies it again."""
        with self._noting:
            for change in self._state.changes():
                self._ledger.event(change.kind, change.text, time=change.time, change=change.id)
                self._state.forget_change(change)

    def _from(self, of: Pass) -> list[Pass]:
        """The passes in the ledger from that number on: this one, if it is replayed, or those that it would replace."""
        if of.number >= self._ledger.length:
            return []
        if of.number >= self._ledger.committed:
            return [entry.of for entry in self._ledger.entries(of.number)]
        first = self._ledger.entry(of.number).of
        if first != of:
            raise ConsentRefused(f"No consent to {of}: the ledger of '{self._party}' has {first} with other details.")
        return [first]

    def _count(self, of: Pass, most: int, replaced: list[Pass]) -> None:
        """Refuse what is over the limit. Passes under way, not in the ledger yet, might all be for this purpose."""
        count = self._ledger.passes(of.purpose) - sum(one.purpose == of.purpose for one in replaced)
        count += sum(one.purpose == of.purpose and self._is_lost(one, of) for one in self._state.broken_passes())
        if count >= most:
            raise ConsentRefused(
                f"No consent to {of}: {count} passes to {of.purpose} were made, and {most} are allowed under this "
                "agreement. More need a new agreement."
            )
        under_way = max(0, of.number - self._ledger.length)
        if count + under_way >= most:
            raise ConsentPending(
                f"No consent to {of} yet: {count} passes to {of.purpose} were made, {most} are allowed, and "
                f"{under_way} before it are not recorded yet. Ask again when they are."
            )

    def _is_lost(self, broken: Pass, of: Pass) -> bool:
        """Whether a pass that broke off was not made again, and is in the ledger neither now nor after `of`."""
        if broken == of:
            return False
        before = broken.number < min(of.number, self._ledger.length)
        return not before or self._ledger.entry(broken.number).of != broken

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
        if policy.human and not self._state.spend(of, self._clock()):
            raise ConsentPending(
                f"No consent to {of} yet: it waits for a person at '{self._party}', who may say: "
                f"modelkeep govern approve --purpose {of.purpose}"
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
