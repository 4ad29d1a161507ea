"""WireChannel: the words of one party to the others over govern's wire, each message checked before it is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from modelkeep.core.errors import WireError
from modelkeep.encrypt.shares.computation import PARTIES
from modelkeep.encrypt.shares.traffic import WORD_BYTES, Traffic
from modelkeep.govern.wire.connection import Connection
from modelkeep.govern.wire.message import Message

AHEAD = 4
"""Passes for which the dealer may send before the last party takes the first: what a party has to keep is bounded."""


class WireChannel:
    """One party's lines to the two others and from the dealer.

    Args:
        session: The digest of what is computed; every message carries it.
        place: Which party this is.
        parties: The lines to the two others, by their place.
        dealer: The line from the dealer.
    """

    def __init__(self, session: str, place: int, parties: Mapping[int, Connection], dealer: Connection) -> None:
        self.traffic = Traffic()
        self._session, self._place, self._parties, self._dealer = session, place, dict(parties), dealer
        self._round = self._pass = 0
        # Both ends send before they receive, so a large message needs a thread, or each would wait for the other.
        self._senders = ThreadPoolExecutor(PARTIES - 1, "shares")

    @property
    def wire_bytes(self) -> tuple[int, int]:
        """Bytes sent and received, headers and encryption included."""
        lines = [*self._parties.values(), self._dealer]
        return sum(line.sent_bytes for line in lines), sum(line.received_bytes for line in lines)

    def gather(self, words: Tensor) -> Tensor:
        """Send this party's words to both others, and get theirs."""
        self.traffic.count_opening(words.shape[1])
        sent = [self._senders.submit(self._send, other, words[0]) for other in self._parties]
        rows = {other: self._receive(other, words.shape[1]) for other in self._parties}
        for each in sent:
            each.result()
        self._round += 1
        return torch.stack([rows.get(place, words[0]) for place in range(PARTIES)])

    def collect(self, words: Tensor, at: int) -> Tensor | None:
        """Send this party's words to one party, or get those of the others there."""
        self.traffic.count_reveal(words.shape[1])
        if at != self._place:
            self._send(at, words[0])
            self._round += 1
            return None
        rows = {other: self._receive(other, words.shape[1]) for other in self._parties}
        self._round += 1
        return torch.stack([rows.get(place, words[0]) for place in range(PARTIES)])

    def take_dealt(self) -> Tensor:
        """What the dealer sent for the next pass."""
        values = {"session": self._session, "pass": self._pass}
        (words,) = _require_words(self._dealer, receive_exactly(self._dealer, "dealt", values))
        self._dealer.send(Message("taken", values))
        self._pass += 1
        self.traffic.dealt += words.nbytes
        return words

    def finish(self) -> None:
        """Wait until the others have come to the end too, so that nothing that still crosses is cut off."""
        self.gather(torch.empty((1, 0), dtype=torch.int64))
        self.traffic.rounds -= 1  # it carries no word of the computation

    def close(self) -> None:
        """Close all lines: the others learn at once that this party is gone."""
        for line in (*self._parties.values(), self._dealer):
            line.close()
        self._senders.shutdown(wait=True)

    def _send(self, other: int, words: Tensor) -> None:
        self._parties[other].send(Message("words", {"session": self._session, "round": self._round}, (words,)))

    def _receive(self, other: int, count: int) -> Tensor:
        line = self._parties[other]
        values = {"session": self._session, "round": self._round}
        (words,) = _require_words(line, receive_exactly(line, "words", values, most=count * WORD_BYTES))
        if len(words) != count:
            raise WireError(f"'{line.peer}' sent {len(words):,} words where round {self._round} has {count:,}.")
        return words


class WireToLast:
    """The dealer's lines. Only the last party is sent anything after the keys."""

    def __init__(self, session: str, lines: Sequence[Connection]) -> None:
        self.traffic = Traffic()
        self._session, self._lines, self._last = session, lines, lines[-1]
        self._sent = self._taken = 0

    @property
    def wire_bytes(self) -> tuple[int, int]:
        """Bytes sent and received, headers and encryption included."""
        return sum(line.sent_bytes for line in self._lines), sum(line.received_bytes for line in self._lines)

    def deal(self, words: Tensor) -> None:
        """Send what a pass needs, at most some passes ahead."""
        while self._sent - self._taken >= AHEAD:
            self._await_taken()
        self._last.send(Message("dealt", {"session": self._session, "pass": self._sent}, (words,)))
        self.traffic.dealt += words.nbytes
        self._sent += 1

    def finish(self) -> None:
        """Wait until the last party has taken everything."""
        while self._taken < self._sent:
            self._await_taken()

    def close(self) -> None:
        """Close all lines."""
        for line in self._lines:
            line.close()

    def _await_taken(self) -> None:
        receive_exactly(self._last, "taken", {"session": self._session, "pass": self._taken}, most=0)
        self._taken += 1


def receive_exactly(line: Connection, kind: str, values: Mapping[str, Any], most: int | None = None) -> Message:
    """The next message, which must be of that kind with these values and bring at most so many bytes of tensors.

    More is refused before any memory is taken for it. Who sends nothing within the wire's deadline counts as gone.
    """

    def admits(peer: str, got: str, header: Mapping[str, Any], size: int) -> bool:
        _require_expected(got, header, kind, values)
        if most is not None and size > most:
            raise WireError(f"'{kind}' announces {size:,} bytes; {most:,} are expected.")
        return True

    line.admits = admits
    message = line.receive(line.wire.deadline)
    _require_expected(message.kind, message.header, kind, values)
    return message


def _require_expected(got: str, header: Mapping[str, Any], kind: str, values: Mapping[str, Any]) -> None:
    if got != kind:
        raise WireError(f"A message '{kind}' is due, and '{got}' came.")
    if header.get("session") != values["session"]:
        raise WireError("It belongs to another session: the roles do not agree on what is computed, or by whom.")
    if header != values:
        raise WireError(f"A message '{kind}' is due with {_short(values)}, and it came with {_short(header)}.")


def _short(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {str(value)[:20]}" for name, value in values.items() if name != "session")


def _require_words(line: Connection, message: Message) -> tuple[Tensor]:
    if len(message.tensors) != 1 or message.tensors[0].dtype is not torch.int64 or message.tensors[0].ndim != 1:
        found = [f"{tensor.dtype} {tuple(tensor.shape)}" for tensor in message.tensors[:4]]
        raise WireError(f"'{line.peer}' must send one row of int64 words. Got {found}.")
    return (message.tensors[0],)
