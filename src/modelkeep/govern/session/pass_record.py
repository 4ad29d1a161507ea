"""PassRecord: where one party stands in an attempt at a pass, and what it has stated about it.

    idle ── begin ──▶ begun ── clear ──▶ cleared ── prepare ──▶ prepared ── commit ──▶ idle
                        └────────────────┴── give up ──▶ idle       └── settled when the next session opens

Each step is written into the ledger before its statement leaves this party. The record knows no network and no tensor,
so every order of its steps can be tried (tests/govern/session/explorer.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from secrets import token_hex
from typing import Any

from modelkeep.core.errors import ConsentRefused, GovernError, WireError
from modelkeep.core.signing import Signer
from modelkeep.govern.consent.decision import ConsentDecision
from modelkeep.govern.ledger.attempts import Attempt
from modelkeep.govern.ledger.entry import Crossing
from modelkeep.govern.ledger.ledger import Ledger
from modelkeep.govern.ledger.receipt import Receipt, require_statement, require_statements
from modelkeep.govern.passes import Consent, Pass, name_attempt
from modelkeep.govern.session.draw import hide, join_secrets


class PassRecord:
    """The record of one party. `keys` are the public keys of all parties by their names.

    `lifetime` is how many seconds a consent of this party holds; `clock` gives seconds since 1970.
    """

    def __init__(
        self,
        name: str,
        keys: Mapping[str, str],
        ledger: Ledger,
        decision: ConsentDecision,
        signer: Signer,
        lifetime: float,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._name, self._keys, self._ledger, self._decision = name, keys, ledger, decision
        self._signer, self._lifetime, self._clock = signer, lifetime, clock
        self.session, self.settled = "", False
        self.attempt: Attempt | None = None
        self.consents: tuple[Consent, ...] = ()
        self.intent: Receipt | None = None
        self.prepared: Receipt | None = None
        self.cleared = False
        self.joined = ""  # what the secrets of all give together, in a check that is cleared
        self._given: dict[int, tuple[Pass, Consent]] = {}
        self._secrets: dict[str, str] = {}  # by what this party is bound to each, until it is shown

    def enter(self, session: str) -> None:
        """Be in this session, or in none (""). What was consented to in another one holds no longer."""
        self.session, self.settled = session, False
        self._given.clear()
        self._secrets.clear()

    def consent(self, of: Pass) -> Consent:
        """Decide about a pass, and sign the consent: for this session, for a while, and for one attempt.

        Asked again for the same pass, it gives the same consent; one to another pass of that number takes its place.
        """
        self._require_settled(of)
        self._decision.decide(of)
        asked, given = self._given.get(of.number, (None, None))
        if asked == of and given is not None and given.expires > self._clock():
            return given
        expires = int(self._clock() + self._lifetime)
        nonce = token_hex(8)
        if of.purpose == "check":
            secret = token_hex(32)
            nonce = hide(secret)
            self._secrets[nonce] = secret
        head = self._ledger.head(of.number - 2)
        consent = Consent.give(of, self._name, head, self._signer, session=self.session, nonce=nonce, expires=expires)
        self._given[of.number] = (of, consent)
        return consent

    def check_early(self, of: Pass, answer: Future[Consent]) -> None:
        """Check the signature under a consent as soon as it comes; `begin` refuses a bad one, and has less to do."""
        with suppress(GovernError):
            consent = answer.result()
            consent.check(of, self._keys.get(consent.party, ""))

    def begin(self, of: Pass, consents: Sequence[Consent]) -> Receipt:
        """State the intent to make the pass, once all have consented to it. Nothing may cross yet."""
        self._require_settled(of)
        self._require_consents(of, consents)
        attempt = Attempt(of, name_attempt(consents), self.session)
        self._decision.decide(of)  # again: what is allowed may have changed since the consent was given
        if of.purpose == "check" and self._ledger.attempts.has_begun(of):
            raise ConsentRefused(f"{of} was begun before. A check draws once: ask for another one.")
        own = next(consent for consent in consents if consent.party == self._name)
        secret = self._secrets.pop(own.nonce, "")
        with self._decision.hold(of):
            self.intent = Receipt(self._name, self._ledger.attempts.begin(attempt, secret))
        del self._given[of.number]
        self.attempt, self.consents = attempt, tuple(consents)
        self.prepared, self.cleared = None, False
        return self.intent

    def clear(self, receipts: Sequence[Receipt]) -> None:
        """Let things cross, once every party has stated its intent to make this very attempt."""
        attempt = self._require_attempt("be cleared")
        require_statements(receipts, "intent", self._keys, attempt.values, self.intent)
        if attempt.of.purpose == "check":
            secrets = {receipt.party: receipt.event.values.get("secret") for receipt in receipts}
            self.joined = join_secrets(self.consents, secrets)
        self._ledger.receipts.keep(receipts)
        self.cleared = True

    def prepare(
        self,
        sent: Sequence[Crossing],
        received: Sequence[Crossing],
        metrics: Mapping[str, float],
        told: Mapping[str, Any] | None = None,
    ) -> Receipt:
        """Log the pass, and state what was logged and what else is `told`, unless consent was withdrawn meanwhile."""
        attempt = self._require_attempt("be prepared")
        if not self.cleared:
            raise WireError(f"{attempt.of} cannot be prepared: not every party has stated that it takes part.")
        with self._decision.hold(attempt.of), self._ledger.change():
            entry = self._ledger.prepare(attempt.of, self.consents, sent, received, metrics)
            self.prepared = Receipt(self._name, self._ledger.attempts.prepare(attempt, entry, told))
        return self.prepared

    def require_prepared(self, receipt: Receipt) -> None:
        """Refuse a statement of another party that is not about this very attempt."""
        require_statement(receipt, "prepared", self._keys, self._require_attempt("be prepared").values)

    def commit(self, number: int, receipts: Sequence[Receipt]) -> None:
        """Let the pass count, once every party has stated that it has prepared this very attempt."""
        attempt = self._require_attempt("be committed")
        if attempt.of.number != number or self.prepared is None:
            raise WireError(f"Pass {number} cannot be committed: '{self._name}' has not prepared it in this session.")
        require_statements(receipts, "prepared", self._keys, attempt.values, self.prepared)
        with self._ledger.change():
            self._ledger.receipts.keep(receipts)
            self._ledger.commit(number)
            self._ledger.attempts.settle(attempt.name, self.prepared.event, "committed", f"{attempt.of} is committed.")
        self._forget()

    def give_up(self, why: str, received: Sequence[Crossing]) -> None:
        """End an attempt that cannot be finished. One that is prepared may be committed elsewhere: see `settle`."""
        attempt, prepared = self.attempt, self.prepared
        self._forget()
        if prepared is not None:
            self.settled = False  # nothing begins before it is known what became of it
        elif attempt is not None:
            self._ledger.attempts.end(attempt, "given up", why, received)

    def _forget(self) -> None:
        self.attempt = self.intent = self.prepared = None
        self.consents, self.cleared = (), False

    def _require_settled(self, of: Pass) -> None:
        if not self.settled:
            raise WireError(f"{of} is asked for before the parties have settled where they stand.")

    def _require_consents(self, of: Pass, consents: Sequence[Consent]) -> None:
        """Refuse a pass to which not every party has consented with its own key, in this session."""
        names = [consent.party for consent in consents]
        if names != sorted(self._keys):
            raise ConsentRefused(
                f"{of} does not have the consent of all parties, only of {', '.join(names) or 'none'}."
            )
        for consent in consents:
            if consent.party != self._name:  # the own one is compared with what was given
                consent.check(of, self._keys[consent.party])
            if consent.session != self.session:
                raise ConsentRefused(f"The consent of '{consent.party}' to {of} was given in another session.")
        own = next(consent for consent in consents if consent.party == self._name)
        if self._given.get(of.number) != (of, own):
            raise ConsentRefused(f"The consent of '{self._name}' to {of} was used before, or a later one replaced it.")
        if own.expires <= self._clock():
            raise ConsentRefused(f"The consent of '{self._name}' to {of} has expired. Ask again.")

    def _require_attempt(self, be: str) -> Attempt:
        if self.attempt is None:
            raise WireError(f"No pass is under way at '{self._name}' that could {be}: none has begun in this session.")
        return self.attempt
