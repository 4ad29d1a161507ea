"""Explorer: every short history of a malicious leader against two honest parties, each with its real record and ledger.

Alice leads with changed software and her real key: she keeps every consent and every statement that she ever got, shows
any of them to anybody in any order, states whatever she likes herself, and lets passes break off. Bob holds the next
piece of the network; Carol has only labels, so no tensor of an inference comes to her. Carol may withdraw, and the
processes of Bob and Carol may end, at any point. After each step the promises are checked (`Histories.broken`).

States that look alike are explored once. `python tests/govern/session/explorer.py` says what was explored;
test_explorer.py is a shorter search, and one with a party whose software has a known hole, which must be found.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a program, it stands beside nothing

from govern.asking import a_pass
from modelkeep.core import signing
from modelkeep.core.errors import GovernError
from modelkeep.core.signing import Signer
from modelkeep.govern.consent import ConsentDecision, Policy
from modelkeep.govern.ledger import Crossing, Ledger
from modelkeep.govern.ledger.entry import Event
from modelkeep.govern.ledger.receipt import Receipt
from modelkeep.govern.passes import Consent, Purpose, name_attempt
from modelkeep.govern.session.pass_record import PassRecord

HONEST = ("bob", "carol")
PASSES = tuple(a_pass(0, "infer", data=letter * 64) for letter in "xy")
MOST = 1
Move = tuple[str, ...]


class _Withdrawals:
    """What Carol has withdrawn, in memory: a search through files would take hours."""

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
    """An honest party: its record, its ledger, its withdrawals."""

    name: str
    signer: Signer
    keys: dict[str, str]
    kind: type[PassRecord]
    state: _Withdrawals = field(default_factory=_Withdrawals)

    def __post_init__(self) -> None:
        self.ledger = Ledger(Path(":memory:"), self.name, self.signer)
        self.start()

    def start(self) -> None:
        """The process begins, or begins again: only the ledger remembers."""
        for name, prepared in self.ledger.attempts.unended():
            if prepared is None:
                self.ledger.attempts.lose(name)
        policies = [Policy(most={"infer": MOST})]
        decision = ConsentDecision(policies, self.state, self.name, self.ledger)  # type: ignore[arg-type]
        self.record = self.kind(self.name, self.keys, self.ledger, decision, self.signer, 600.0, clock=lambda: 0.0)
        self.record.enter("s")
        self.record.settled = True


class World:
    """One history: what Alice has, what was answered, and whether a promise is broken."""

    def __init__(self, signers: dict[str, Signer], kind: type[PassRecord]) -> None:
        self.signers = signers
        keys = {name: signer.public_key for name, signer in signers.items()}
        self.places = {name: Place(name, signers[name], keys, kind) for name in HONEST}
        self.consents: dict[tuple[str, int], list[Consent]] = {}
        self.intents: dict[str, list[Receipt]] = {name: [] for name in HONEST}
        self.prepared: dict[str, list[Receipt]] = {name: [] for name in HONEST}
        self.attempts: list[tuple[int, list[Consent]]] = []
        self.answered: set[str] = set()
        self.broken: list[str] = []

    def close(self) -> None:
        for place in self.places.values():
            place.ledger.close()

    # ---- what Alice, Carol and chance can do

    def moves(self) -> list[Move]:
        """All moves that could be made now; one that an honest party refuses changes nothing."""
        found: list[Move] = [("ask", name, str(i)) for name in HONEST for i in range(len(PASSES))]
        for i in range(len(PASSES)):
            counts = [range(len(self.consents.get((name, i), []))) for name in HONEST]
            for chosen in itertools.product(*counts):
                found += [("begin", name, str(i), *map(str, chosen)) for name in HONEST]
        for name in HONEST:
            found += [("clear", name, str(k)) for k in range(len(self.attempts))]
            found += [("commit", name, str(k)) for k in range(len(self.attempts))]
            found += [("send", name), ("finish", name), ("abort", name), ("crash", name)]
        found.append(("withdraw", "carol"))
        return found

    def make(self, move: Move) -> bool:
        """Make a move. False where it was refused."""
        name, place = move[1], self.places[move[1]]
        try:
            getattr(self, f"_{move[0]}")(place, *map(int, move[2:]))
        except GovernError:
            return False
        self._check(name)
        return True

    def _ask(self, place: Place, i: int) -> None:
        given = self.consents.setdefault((place.name, i), [])
        consent = place.record.consent(PASSES[i])
        if consent not in given:
            given.append(consent)

    def _begin(self, place: Place, i: int, bobs: int, carols: int) -> None:
        theirs = [self.consents["bob", i][bobs], self.consents["carol", i][carols]]
        consents = [self._own_consent(i), *theirs]
        self.intents[place.name].append(place.record.begin(PASSES[i], consents))
        if (i, consents) not in self.attempts:
            self.attempts.append((i, consents))

    def _clear(self, place: Place, k: int) -> None:
        place.record.clear(self._best(self.intents, "intent", k))

    def _commit(self, place: Place, k: int) -> None:
        place.record.commit(0, self._best(self.prepared, "prepared", k))

    def _send(self, place: Place) -> None:
        """Alice sends activations, and gets the answer: it is this that must not happen without consent."""
        record = place.record
        if place.name != "bob" or record.attempt is None or not record.cleared or record.prepared is not None:
            raise GovernError("It is not let in.")
        self.answered.add(record.attempt.of.digest)
        carol = self.places["carol"]
        intent = carol.ledger.attempts.find("intent", record.attempt.name)
        if intent is None:
            self.broken.append("something crossed in an attempt that Carol has not begun")
        if place.ledger.attempts.find("intent", record.attempt.name) is None:
            self.broken.append("something crossed in an attempt that is not in Bob's account")

    def _finish(self, place: Place) -> None:
        crossed = [Crossing("alice", "activations", 0, 0, "d" * 64, 8)] if place.name == "bob" else []
        self.prepared[place.name].append(place.record.prepare([], crossed, {}))
        if place.state.withdrawn:
            self.broken.append(f"{place.name} has prepared a pass after it had withdrawn")

    def _abort(self, place: Place) -> None:
        if place.record.attempt is None:
            raise GovernError("Nothing is under way.")
        place.record.give_up("Alice says so.", [])

    def _crash(self, place: Place) -> None:
        place.start()

    def _withdraw(self, place: Place) -> None:
        if place.state.withdrawn:
            raise GovernError("That was before.")
        place.state.withdrawn = True
        self.began = len(place.ledger.events())

    # ---- what Alice makes up

    def _own_consent(self, i: int) -> Consent:
        return Consent.give(PASSES[i], "alice", "", self.signers["alice"], session="s", nonce="a", expires=2**40)

    def _best(self, theirs: dict[str, list[Receipt]], kind: str, k: int) -> list[Receipt]:
        """Her own statement about attempt k, and of each other party the one that fits it, or else the last one."""
        i, consents = self.attempts[k]
        name = name_attempt(consents)
        values = {"pass": PASSES[i].digest, "number": 0, "attempt": name, "session": "s"}
        event = Event.sign(k, 0.0, kind, "", values, previous="", party="alice", signer=self.signers["alice"])
        found = [Receipt("alice", event)]
        for party in HONEST:
            fitting = [each for each in theirs[party] if each.event.values.get("attempt") == name]
            found += (fitting or theirs[party])[-1:]
        return found

    # ---- what must hold

    def _check(self, name: str) -> None:
        if len(self.answered) > MOST:
            self.broken.append(f"{len(self.answered)} different inputs were answered, and {MOST} is allowed")
        carol = self.places["carol"]
        if carol.state.withdrawn:
            later = [event.kind for event in carol.ledger.events()[self.began :]]
            if {"intent", "prepared"} & set(later):
                self.broken.append("Carol took part after she had withdrawn")
        if self.places["bob"].ledger.committed and not any(event.kind == "prepared" for event in carol.ledger.events()):
            self.broken.append("Bob has committed a pass that Carol has not prepared")

    def look(self) -> tuple[object, ...]:
        """What decides about all that can follow."""
        places = []
        for place in self.places.values():
            record = place.record
            attempt = None if record.attempt is None else record.attempt.name
            given = tuple(sorted((number, of.digest, c.nonce) for number, (of, c) in record._given.items()))
            kinds = tuple((e.kind, e.values.get("attempt")) for e in place.ledger.events())
            places.append((attempt, record.cleared, record.prepared is not None, given, kinds, place.state.withdrawn))
        has = tuple(sorted((key, len(found)) for key, found in self.consents.items()))
        return (*places, has, tuple(sorted(self.answered)))


@dataclass
class Explored:
    """How much was explored: steps that were tried, states that differ, and the histories that break a promise."""

    depth: int
    steps: int = 0
    states: int = 0
    refused: int = 0
    broken: list[tuple[str, list[Move]]] = field(default_factory=list)


ASKED: list[Move] = [("ask", "bob", "0"), ("ask", "carol", "0")]
BEGUN: list[Move] = [*ASKED, ("begin", "bob", "0", "0", "0"), ("begin", "carol", "0", "0", "0")]
CLEARED: list[Move] = [*BEGUN, ("clear", "bob", "0"), ("clear", "carol", "0")]
PREPARED: list[Move] = [*CLEARED, ("send", "bob"), ("finish", "bob"), ("finish", "carol")]
STARTS = {"nothing": [], "asked": ASKED, "begun": BEGUN, "cleared": CLEARED, "prepared": PREPARED}


def explore(
    depth: int, kind: type[PassRecord] = PassRecord, start: Sequence[Move] = (), most_states: int = 10**9
) -> Explored:
    """Search all histories of up to `depth` steps after `start`, the shortest first.

    States that look alike are gone on from once.
    """
    told = Explored(depth)
    with TemporaryDirectory() as folder, _deterministic():
        signers = {name: Signer.at(Path(folder) / f"{name}.pem") for name in ("alice", *HONEST)}
        frontier: list[list[Move]] = [list(start)]
        seen: set[tuple[object, ...]] = set()
        for _ in range(depth):
            following: list[list[Move]] = []
            for history in frontier:
                for move in _play(history, signers, kind).moves():
                    if told.broken or told.states >= most_states:
                        return told
                    world = _play(history, signers, kind)
                    told.steps += 1
                    if not world.make(move):
                        told.refused += 1
                    elif world.broken:
                        told.broken.append((world.broken[0], [*history, move]))
                    elif (look := world.look()) not in seen:
                        seen.add(look)
                        told.states += 1
                        following.append([*history, move])
                    world.close()
            frontier = following
    return told


def _play(history: Sequence[Move], signers: dict[str, Signer], kind: type[PassRecord]) -> World:
    world = World(signers, kind)
    _NONCES[0] = 0
    for move in history:
        world.make(move)
    return world


_NONCES = [0]


@contextmanager
def _deterministic() -> Iterator[None]:
    """Nonces and times that repeat, so that a history signs the same again, and each signature is made once."""

    def nonce(size: int) -> str:
        _NONCES[0] += 1
        return hashlib.sha256(str(_NONCES[0]).encode()).hexdigest()[: 2 * size]

    checked: Callable[..., bool] = lru_cache(maxsize=200_000)(signing.is_signed)
    signed: Callable[..., str] = lru_cache(maxsize=200_000)(Signer.sign)
    with (
        patch("modelkeep.govern.session.pass_record.token_hex", nonce),
        patch("modelkeep.govern.passes.is_signed", checked),
        patch("modelkeep.govern.ledger.entry.is_signed", checked),
        patch("modelkeep.govern.ledger.ledger.time.time", lambda: 0.0),
        patch.object(Signer, "sign", lambda signer, content: signed(signer, content)),
    ):
        yield


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--states", type=int, default=10**9, help="Stop each search after so many different states.")
    asked = parser.parse_args()
    broken = 0
    for name, start in STARTS.items():
        told = explore(asked.depth, start=start, most_states=asked.states)
        broken += len(told.broken)
        sys.stdout.write(
            f"From '{name}', up to {told.depth} more steps: {told.steps:,} steps tried, {told.refused:,} refused, "
            f"{told.states:,} different states, {len(told.broken)} promises broken.\n"
        )
        for why, history in told.broken:
            sys.stdout.write(f"{why}: {' · '.join(' '.join(move) for move in history)}\n")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
