"""World: one history of malicious parties against honest ones, each of which has its real record, ledger and sessions.

Alice leads with changed software and her real key, and perhaps with the keys of others who are with her: she keeps
every consent and every statement that she ever got, shows any of them to anybody in any order, states whatever she
likes, opens sessions and lets passes break off. Bob holds the next piece of the network; Carol has only labels. The
last honest party may withdraw, and the process of each honest one may end, at any point. After each move the promises
are checked.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from govern.asking import a_pass
from modelkeep.core.errors import GovernError
from modelkeep.core.signing import Signer
from modelkeep.govern.consent import ConsentDecision, Policy
from modelkeep.govern.ledger import Crossing, Ledger
from modelkeep.govern.ledger.entry import Event
from modelkeep.govern.ledger.receipt import Receipt
from modelkeep.govern.passes import Consent, Purpose, name_attempt
from modelkeep.govern.session.pass_record import PassRecord
from modelkeep.govern.session.session_protocol import SessionParticipant, Standing, read_standing

PASSES = tuple(a_pass(0, "infer", data=letter * 64) for letter in "xy")
CONTENTS = "01"  # what Alice may send as the inputs of one and the same pass
Move = tuple[str, ...]


class _Withdrawals:
    """What a party has withdrawn, in memory: a search through files would take hours."""

    def __init__(self) -> None:
        self.withdrawn = False

    def withdrawal(self, purpose: Purpose) -> str | None:
        return "enough" if self.withdrawn else None

    @contextmanager
    def holding(self, purpose: Purpose) -> Iterator[str | None]:
        yield self.withdrawal(purpose)

    def changes(self) -> list[Any]:
        return []


@dataclass
class Place:
    """An honest party: its record, its sessions, its ledger, its withdrawals."""

    name: str
    signer: Signer
    keys: dict[str, str]
    kind: type[PassRecord]
    most: int
    state: _Withdrawals = field(default_factory=_Withdrawals)

    def __post_init__(self) -> None:
        self.ledger = Ledger(Path(":memory:"), self.name, self.signer)
        self.start()

    def start(self) -> None:
        """The process begins, or begins again: only the ledger remembers."""
        policies = [Policy(most={"infer": self.most})]
        decision = ConsentDecision(policies, self.state, self.name, self.ledger)  # type: ignore[arg-type]
        record = self.kind(self.name, self.keys, self.ledger, decision, self.signer, 600.0, clock=lambda: 0.0)
        self.record, self.content = record, ""
        self.passes = passes = SimpleNamespace(
            name=self.name,
            agreement=SimpleNamespace(fingerprint="a" * 64),
            ledger=self.ledger,
            record=record,
            decision=decision,
            leader="",
            links=SimpleNamespace(connection_to=lambda name: None),
            state=SimpleNamespace(
                committed_step=0, checkpoints=SimpleNamespace(steps=lambda: [0]), go_to=lambda step: None
            ),
            give_up=self.give_up,
            session="",
        )
        self.sessions = SessionParticipant(passes, self.keys)  # type: ignore[arg-type]

    def give_up(self, why: str = "It broke off.") -> None:
        """As `PassParticipant` does."""
        self.record.give_up(why, self.came())
        self.content = ""

    def came(self) -> list[Crossing]:
        """What has come in the pass under way."""
        return [Crossing("alice", "activations", 0, 0, self.content * 64, 8)] if self.content else []

    def bring(self, content: str) -> None:
        """Something comes in the pass under way; a later attempt at it brings only what an earlier one brought."""
        record = self.record
        if record.attempt is None or not record.cleared or record.prepared is not None or self.content:
            raise GovernError("It is not let in.")
        of = record.attempt.of
        before = self.ledger.attempts.brought(of)
        recorded = self.ledger.entry(0) if self.ledger.length else None
        before += list(recorded.received) if recorded is not None and recorded.of == of else []
        if any(crossing.digest != content * 64 for crossing in before):
            raise GovernError("That is not what came before.")
        self.content = content


class World:
    """One history: what Alice has, what was answered, and whether a promise is broken."""

    def __init__(
        self, signers: dict[str, Signer], kind: type[PassRecord], honest: tuple[str, ...], most: int = 1
    ) -> None:
        self.signers, self.honest, self.most = signers, honest, most
        self.with_her = [name for name in signers if name not in honest]
        keys = {name: signer.public_key for name, signer in signers.items()}
        self.places = {name: Place(name, signers[name], keys, kind, most) for name in honest}
        self.consents: dict[tuple[str, int, str], list[Consent]] = {}
        self.intents: dict[str, list[Receipt]] = {name: [] for name in honest}
        self.prepared: dict[str, list[Receipt]] = {name: [] for name in honest}
        self.standings: dict[tuple[str, str], Standing] = {}
        self.attempts: list[tuple[int, str, list[Consent]]] = []
        self.answered: set[tuple[str, str]] = set()
        self.broken: list[str] = []
        self._stated = itertools.count(10**6)

    def close(self) -> None:
        for place in self.places.values():
            place.ledger.close()

    # ---- what Alice, the last honest party and chance can do

    def moves(self) -> list[Move]:
        """All moves that could be made now; one that an honest party refuses changes nothing."""
        found: list[Move] = [("withdraw", self.honest[-1])]
        for name, place in self.places.items():
            found += [("open", name), ("settle", name, "0"), ("settle", name, "1")]
            found += [("abort", name), ("crash", name), ("finish", name)]
            found += [("ask", name, str(i)) for i in range(len(PASSES))]
            found += [("send", name, content) for content in CONTENTS if name == "bob"]
            found += [(what, name, str(k)) for k in range(len(self.attempts)) for what in ("clear", "commit")]
            for i in range(len(PASSES)):
                held = [self.consents.get((each, i, place.record.session), []) for each in self.honest]
                chosen = itertools.product(*(range(len(each)) for each in held))
                found += [("begin", name, str(i), *map(str, some)) for some in chosen]
        return found

    def make(self, move: Move, *, known: bool = False) -> bool:
        """Make a move, and check the promises unless it is `known` to keep them. False where it was refused."""
        place = self.places[move[1]]
        try:
            getattr(self, f"_{move[0]}")(place, *map(int, move[2:]))
        except GovernError:
            return False
        if not known:
            self._check()
        return True

    def _open(self, place: Place) -> None:
        """In the newest session, or in the next one if this party is in the newest already."""
        sessions = [int(name) for _, name in self.standings]
        newest = max(sessions, default=0)
        session = newest if (place.name, str(newest)) not in self.standings else newest + 1
        place.passes.session = str(session)
        self.standings[place.name, str(session)] = place.sessions.open(str(session), "alice", "a" * 64).result()
        place.content = ""

    def _settle(self, place: Place, claims: int) -> None:
        """Alice shows the standings of all in this session, or the last there is; she may say that she committed."""
        session = place.record.session
        theirs = [self._standing(name, session) for name in self.honest]
        committed = int(bool(claims)) or max(each.committed for each in theirs)
        values = {"session": session, "step": 0, "checkpoints": [0], "length": committed, "committed": committed}
        proof = self._statements(self.prepared, "prepared", len(self.attempts) - 1) if self.attempts else []
        own = [read_standing(Receipt(name, self._state(name, "standing", values)), proof) for name in self.with_her]
        proper = all((name, session) in self.standings for name in self.honest) and not claims
        behind = any(each.committed > place.ledger.committed for each in theirs)
        try:
            place.sessions.settle([*own, *theirs]).result()
        except GovernError:
            if proper and place.record.session and not place.state.withdrawn:
                self.broken.append(f"{place.name} can settle no more, though all say where they stand")
                return
            raise
        if proper and behind and not place.ledger.committed:
            self.broken.append(f"{place.name} has settled without what another party has committed")

    def _standing(self, name: str, session: str) -> Standing:
        found = [each for (whose, of), each in self.standings.items() if whose == name and of == session]
        found = found or [each for (whose, _), each in self.standings.items() if whose == name]
        if not found:
            raise GovernError(f"{name} has not said where it stands.")
        return found[-1]

    def _ask(self, place: Place, i: int) -> None:
        given = self.consents.setdefault((place.name, i, place.record.session), [])
        consent = place.record.consent(PASSES[i])
        if consent not in given:
            given.append(consent)

    def _begin(self, place: Place, i: int, *chosen: int) -> None:
        if place.record.attempt is not None or place.ledger.committed:  # see `PassParticipant` and `require_turn`
            raise GovernError("Another pass is under way, or this one is out of turn.")
        session = place.record.session
        held = {name: self.consents.get((name, i, session), []) for name in self.honest}
        if any(k >= len(held[name]) for name, k in zip(self.honest, chosen, strict=True)):
            raise GovernError("There is no such consent.")
        theirs = [held[name][k] for name, k in zip(self.honest, chosen, strict=True)]
        own = [self._own_consent(name, i, session) for name in self.with_her]
        consents = sorted([*own, *theirs], key=lambda consent: consent.party)
        self.intents[place.name].append(place.record.begin(PASSES[i], consents))
        if (i, session, consents) not in self.attempts:
            self.attempts.append((i, session, consents))

    def _clear(self, place: Place, k: int) -> None:
        self._require(k)
        place.record.clear(self._statements(self.intents, "intent", k))

    def _commit(self, place: Place, k: int) -> None:
        self._require(k)
        place.record.commit(0, self._statements(self.prepared, "prepared", k))
        place.content = ""

    def _send(self, place: Place, content: int) -> None:
        """Alice sends activations, and gets the answer: it is this that must not happen without consent."""
        place.bring(str(content))
        attempt = place.record.attempt
        assert attempt is not None
        self.answered.add((attempt.of.digest, str(content)))
        for name, other in self.places.items():
            if other.ledger.attempts.find("intent", attempt.name) is None:
                self.broken.append(f"something crossed in an attempt that {name} has not begun")

    def _finish(self, place: Place) -> None:
        if place.record.prepared is not None:
            raise GovernError("It is prepared.")
        self.prepared[place.name].append(place.record.prepare([], place.came(), {}))
        if place.state.withdrawn:
            self.broken.append(f"{place.name} has prepared a pass after it had withdrawn")

    def _abort(self, place: Place) -> None:
        if place.record.attempt is None:
            raise GovernError("Nothing is under way.")
        place.give_up("Alice says so.")

    def _crash(self, place: Place) -> None:
        place.start()

    def _withdraw(self, place: Place) -> None:
        if place.state.withdrawn:
            raise GovernError("That was before.")
        place.state.withdrawn = True
        self.began = len(place.ledger.events())

    def _require(self, k: int) -> None:
        if k >= len(self.attempts):
            raise GovernError("There is no such attempt.")

    # ---- what Alice makes up

    def _own_consent(self, name: str, i: int, session: str) -> Consent:
        return Consent.give(PASSES[i], name, "", self.signers[name], session=session, nonce="a", expires=2**40)

    def _state(self, name: str, kind: str, values: dict[str, Any]) -> Event:
        number = next(self._stated)
        return Event.sign(number, 0.0, kind, "", values, previous="", party=name, signer=self.signers[name])

    def _statements(self, theirs: dict[str, list[Receipt]], kind: str, k: int) -> list[Receipt]:
        """Statements about attempt k of who is with her, and of each other party one that fits, or else the last."""
        i, session, consents = self.attempts[k]
        name = name_attempt(consents)
        values = {"pass": PASSES[i].digest, "number": 0, "attempt": name, "session": session}
        found = [Receipt(each, self._state(each, kind, values)) for each in self.with_her]
        for party in self.honest:
            fitting = [each for each in theirs[party] if each.event.values.get("attempt") == name]
            found += (fitting or theirs[party])[-1:]
        return found

    # ---- what must hold

    def _check(self) -> None:
        if len(self.answered) > self.most:
            self.broken.append(f"{len(self.answered)} different inputs were answered, and {self.most} is allowed")
        last = self.places[self.honest[-1]]
        if last.state.withdrawn:
            later = [event.kind for event in last.ledger.events()[self.began :]]
            if {"intent", "prepared"} & set(later):
                self.broken.append(f"{last.name} took part after it had withdrawn")
        for place in self.places.values():
            attempt = place.ledger.attempts.last_committed(0) if place.ledger.committed else None
            for other in self.places.values():
                if place.ledger.committed and (
                    attempt is None or other.ledger.attempts.find("prepared", attempt) is None
                ):
                    self.broken.append(f"{place.name} has committed a pass that {other.name} has not prepared")

    def look(self) -> tuple[object, ...]:
        """What decides about all that can follow."""
        places = []
        for place in self.places.values():
            record = place.record
            attempt = None if record.attempt is None else record.attempt.name
            given = tuple(sorted((number, of.digest, c.nonce) for number, (of, c) in record._given.items()))
            kinds = tuple((e.kind, e.values.get("attempt")) for e in place.ledger.events())
            stands = (record.session, record.settled, place.content, place.ledger.committed, place.state.withdrawn)
            places.append((attempt, record.cleared, record.prepared is not None, given, kinds, stands))
        has = tuple(sorted((key, len(found)) for key, found in self.consents.items()))
        return (*places, has, tuple(sorted(self.answered)))
