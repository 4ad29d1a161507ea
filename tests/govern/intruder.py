"""Mallory in Alice's place: somebody with a real member's key who writes each message by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import count
from secrets import token_hex
from typing import Any

import torch
from torch import Tensor

from govern.meeting import Meeting
from modelkeep.core.errors import PartyUnavailable
from modelkeep.govern.identity import Identity
from modelkeep.govern.ledger.entry import Event
from modelkeep.govern.ledger.receipt import Receipt
from modelkeep.govern.passes import Consent, Pass, read_consent
from modelkeep.govern.wire.connection import Connection
from modelkeep.govern.wire.endpoint import Endpoint
from modelkeep.govern.wire.message import Message

_NUMBERS = count(10**6)  # of the intruder's statements; a member could continue its own account as well


class Intruder:
    """Speaks to `victim` as the member called `name`."""

    def __init__(self, split: Meeting, name: str, victim: str) -> None:
        agreement = split.agreement
        self.split, self.name, self.agreement = split, name, agreement
        self.identity = Identity.at(split.folders[name].path, name)
        members = {party.name: party.public_key for party in agreement.parties}
        endpoint = Endpoint(self.identity, members, wire=agreement.wire, on_refused=lambda text: None)
        self.connection: Connection = endpoint.connect(victim, agreement.member(victim).address, 20.0)
        self.session = token_hex(8)
        self._questions = count()

    def say(self, kind: str, header: Mapping[str, Any] | None = None, *tensors: Tensor) -> None:
        """Send a message of the session."""
        self.connection.send(Message(kind, {"session": self.session, **(header or {})}, tensors))

    def hear(self) -> Message:
        """The next message that comes."""
        return self.connection.receive(20.0)

    def ask(self, kind: str, header: Mapping[str, Any] | None = None) -> Message:
        """Ask, and wait for the answer; what else comes is left away."""
        number = next(self._questions)
        self.say(kind, {"question": number, **(header or {})})
        while True:
            told = self.hear()
            if told.kind in ("answer", "refusal") and told.header.get("question") == number:
                return told

    def open(self, step: int | None = None) -> Message:
        """Open a session, and have the victim go to a step, as if it had to; without one it stays where it is."""
        self.session = token_hex(8)
        told = self.ask("open", {"agreement": self.agreement.fingerprint})
        if told.kind == "answer":
            values = told.header["receipt"]["event"]["values"]
            stands = values["checkpoints"][-1] if values["step"] is None else values["step"]
            settled = self.ask("settle", {"standings": self.standings(told, stands if step is None else step)})
            assert settled.kind == "answer", settled.header
        return told

    def standings(self, told: Message, step: int, **other: Any) -> list[dict[str, Any]]:
        """The victim's own standing and one of the intruder's, who has no other checkpoint than that of `step`."""
        theirs = told.header["receipt"]["event"]["values"]
        values = {**theirs, "session": self.session, "step": step, "checkpoints": [step], **other}
        mine = {"receipt": asdict(self.state("standing", values)), "proof": []}
        return [mine, {"receipt": told.header["receipt"], "proof": told.header["proof"]}]

    def state(self, kind: str, values: Mapping[str, Any]) -> Receipt:
        """A statement with the member's real key, in an account that goes on for ever."""
        number = next(_NUMBERS)
        event = Event.sign(
            number, 0.0, kind, "", dict(values), previous="", party=self.name, signer=self.identity.signer
        )
        return Receipt(self.name, event)

    def a_pass(self, number: int = 0, step: int = 0, **other: Any) -> Pass:
        """The training pass that the agreement has at this step, or what is asked for instead of it."""
        agreement = self.agreement
        return replace(
            Pass(
                agreement=agreement.fingerprint,
                number=number,
                purpose="train",
                asker=self.name,
                source=agreement.data.holder,
                sink=agreement.labels.holder,
                step=step,
                data=agreement.data.fingerprint,
                labels=agreement.labels.fingerprint,
                rows=agreement.recipe.batch_size,
                parts=agreement.recipe.micro_batches,
            ),
            **other,
        )

    def own_consent(self, of: Pass, head: str = "") -> Consent:
        nonce, expires = token_hex(8), 2**40
        signer = self.identity.signer
        return Consent.give(of, self.name, head, signer, session=self.session, nonce=nonce, expires=expires)

    def consents(self, of: Pass, head: str = "") -> list[dict[str, Any]]:
        """Both consents to a pass: Bob is asked for his."""
        told = self.ask("ask", {"pass": asdict(of)})
        assert told.kind == "answer", told.header
        return [self.own_consent(of, head).values(), read_consent(told.header["consent"]).values()]

    def begin(self, of: Pass) -> Message:
        """Begin a pass with all consents, and clear it if Bob says that he takes part."""
        consents = self.consents(of)
        told = self.ask("begin", {"pass": asdict(of), "consents": consents})
        if told.kind == "answer":
            self.clear(told)
        return told

    def clear(self, told: Message, **other: Any) -> None:
        """Show all intents: Bob's own, and one of the intruder's that says the same."""
        theirs = told.header["receipt"]
        mine = self.state("intent", {**theirs["event"]["values"], **other})
        self.say("clear", {"receipts": [asdict(mine), theirs]})

    def activations(self, of: Pass, *tensors: Tensor, **header: Any) -> None:
        """Send activations into Bob's leg."""
        said = {"pass": of.digest, "leg": 1, "part": 0, "numbers": {}, "wants": [True], "random": False}
        self.say("activations", {**said, **header}, *tensors)

    def trouble(self) -> str:
        """The reason that Bob tells for not going on."""
        while True:
            told = self.hear()
            if told.kind == "trouble":
                return str(told.header["reason"])
            assert told.kind != "gradients", "Bob has answered"


@contextmanager
def intruding(split: Meeting, name: str = "alice", victim: str = "bob") -> Iterator[Intruder]:
    """An intruder who is gone afterwards."""
    intruder = Intruder(split, name, victim)
    try:
        yield intruder
    finally:
        intruder.connection.close()


def ends(connection: Connection) -> bool:
    """Whether the other side has closed the connection."""
    try:
        while True:
            connection.receive(20.0)
    except PartyUnavailable:
        return True


def crossing(rows: int = 32) -> Tensor:
    """What may cross in the tests of refusals: 8 channels of 8 × 8."""
    return torch.zeros(rows, 8, 8, 8)
