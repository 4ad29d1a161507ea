"""Mallory leads in Alice's place, with Alice's real key and software of her own: to Bob and to Carol at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from secrets import token_hex
from typing import Any

from govern.intruder import Intruder
from govern.meeting import Meeting
from modelkeep.govern.ledger.reader import read_ledger
from modelkeep.govern.passes import Pass
from modelkeep.govern.wire.message import Message


class Mallory:
    """What a leader could say to two parties; she keeps all that they tell her."""

    def __init__(self, split: Meeting) -> None:
        self.split = split
        self.to = {name: Intruder(split, "alice", name) for name in split.folders if name != "alice"}
        self.bob, self.carol = self.to["bob"], self.to["carol"]
        self.carol.session = self.bob.session

    def close(self) -> None:
        for intruder in self.to.values():
            intruder.connection.close()

    # ---- sessions

    def open(self) -> dict[str, Message]:
        """Open a session with both, without settling."""
        self.bob.session = self.carol.session = token_hex(8)
        return {name: each.ask("open", {"agreement": each.agreement.fingerprint}) for name, each in self.to.items()}

    def standings(self, told: dict[str, Message], **mine: Any) -> list[dict[str, Any]]:
        """The standings of both, and one of hers that says the same as Bob's, except for what she says otherwise."""
        values = {**told["bob"].header["receipt"]["event"]["values"], **mine}
        own = {"receipt": asdict(self.bob.state("standing", values)), "proof": []}
        theirs = [{"receipt": each.header["receipt"], "proof": each.header["proof"]} for each in told.values()]
        return [own, *theirs]

    def meet(self, **mine: Any) -> dict[str, Message]:
        """Open a session and settle it, with a standing of hers that says what she likes."""
        standings = self.standings(self.open(), **mine)
        return {name: each.ask("settle", {"standings": standings}) for name, each in self.to.items()}

    # ---- passes

    def inference(self, letter: str, rows: int = 5, **other: Any) -> Pass:
        """An inference of inputs that have this name."""
        number = read_ledger(self.split.folders["bob"].ledger).committed
        updates = int(self.split.agreement.recipe.steps or 0)
        asked = {"purpose": "infer", "sink": "alice", "labels": "", "rows": rows, "data": letter * 64, "parts": 1}
        return self.bob.a_pass(number, updates, **{**asked, **other})

    def consents(self, of: Pass) -> list[dict[str, Any]]:
        """All consents to a pass."""
        theirs = [each.ask("ask", {"pass": asdict(of)}) for each in self.to.values()]
        assert [told.kind for told in theirs] == ["answer", "answer"], [told.header for told in theirs]
        return [self.bob.own_consent(of).values(), *(told.header["consent"] for told in theirs)]

    def begin(self, of: Pass, consents: Sequence[Any], *names: str) -> dict[str, Message]:
        """Begin a pass at these parties, or at both."""
        said = {"pass": asdict(of), "consents": list(consents)}
        return {name: self.to[name].ask("begin", said) for name in names or self.to}

    def clear(self, told: dict[str, Message], *names: str) -> None:
        """Show the intents that there are to these parties, or to both."""
        theirs = [each.header["receipt"] for each in told.values()]
        mine = asdict(self.bob.state("intent", theirs[0]["event"]["values"]))
        for name in names or self.to:
            self.to[name].say("clear", {"receipts": [mine, *theirs]})

    def run(self, of: Pass) -> None:
        """Begin a pass at both, with all that it needs."""
        self.clear(self.begin(of, self.consents(of)))


@contextmanager
def mallory(split: Meeting) -> Iterator[Mallory]:
    """She is gone afterwards."""
    found = Mallory(split)
    try:
        yield found
    finally:
        found.close()


def reason(told: Message) -> str:
    """Why a party refused."""
    assert told.kind == "refusal", told.header
    return str(told.header["reason"])
