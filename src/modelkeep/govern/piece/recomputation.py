"""Recomputation: whether what a party sent follows from its stated state and from what came to it, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from modelkeep.core.errors import CheckpointError, GovernError
from modelkeep.core.fingerprint import fingerprint
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.ledger.entry import Crossing, Entry, Event
from modelkeep.govern.ledger.reader import parse
from modelkeep.govern.ledger.writer import What, make_crossing, sort_crossings
from modelkeep.govern.passes import Pass
from modelkeep.govern.piece.checkpoints import WORDING
from modelkeep.govern.piece.computation import Computation, make_route
from modelkeep.govern.piece.held_pieces import HeldPieces
from modelkeep.govern.piece.openings import Opening, Received
from modelkeep.govern.piece.payload import Payload
from modelkeep.training.checkpoint import Snapshot

Stated = Callable[[int], Sequence[Event]]


@dataclass
class Recomputation:
    """Computes again what `party` did. `stated` gives its statements that it had prepared the pass of a number."""

    agreement: Agreement
    party: str
    stated: Stated
    passes: int = 0
    _sent: list[Crossing] = field(default_factory=list)

    def check(self, opening: Opening, number: int) -> None:
        """Return if all that the party stated up to the pass of that number follows; GovernError says what does not."""
        entries = self._read_entries(opening.entries, number)
        first = entries[0]
        try:
            snapshot = Snapshot.from_bytes(opening.state, f"The state of '{self.party}'", WORDING)
        except CheckpointError as error:
            raise GovernError(str(error)) from error
        if all(event.values.get("state") != snapshot.fingerprint() for event in self.stated(first.number)):
            raise GovernError(f"The state that was opened is not the one that was stated with {first.of}.")
        if snapshot.values.get("step") != first.of.step:
            raise GovernError(f"The state that was opened is not the one before {first.of}.")
        pieces = HeldPieces(self.agreement, self.party, snapshot.part("piece/"))
        pieces.restore(snapshot)
        follows = first.of.step == 0  # the pieces as they were dealt out
        for entry in entries:
            if entry.number not in opening.received:
                raise GovernError(f"What came in {entry.of} was not opened.")
            follows |= entry is not first and self._check_state(pieces, entry)
            self._check_pass(pieces, entry, opening.received[entry.number], opening)
            self.passes += 1
        if not follows:
            raise GovernError(
                f"'{self.party}' has opened the newest state before {entries[-1].of} and no earlier one, so that "
                "nothing shows where that state comes from."
            )

    def _check_state(self, pieces: HeldPieces, entry: Entry) -> bool:
        """Whether the party stated a state with this pass, which then must be the one that was computed here."""
        stated = {event.values["state"] for event in self.stated(entry.number) if "state" in event.values}
        if stated and stated != {pieces.snapshot().fingerprint()}:
            raise GovernError(
                f"'{self.party}' stated another state with {entry.of} than follows from its state before and from what "
                "came since then."
            )
        return bool(stated)

    def _read_entries(self, lines: Sequence[str], number: int) -> list[Entry]:
        """The entries as the party stated them: every update from a state on, then the pass that was drawn."""
        entries = [parse(Entry, line) for line in lines]
        if not entries or entries[-1].number != number:
            raise GovernError(f"The pass that was opened is not the one that was drawn, {number}.")
        for entry in entries:
            if all(event.values.get("entry") != entry.hash for event in self.stated(entry.number)):
                raise GovernError(f"The entry of {entry.of} is another one than '{self.party}' stated.")
        start = entries[0].of.step
        if [entry.of.step for entry in entries] != list(range(start, start + len(entries))):
            raise GovernError(f"Updates are missing between the state that was opened and pass {number}.")
        if any(entry.of.purpose != "train" for entry in entries[:-1]):
            raise GovernError(f"The passes between the state that was opened and pass {number} are no updates.")
        return entries

    def _check_pass(self, pieces: HeldPieces, entry: Entry, received: Received, opening: Opening) -> None:
        of, wire = entry.of, self.agreement.wire
        route = make_route(self.agreement.holders, of.source, of.sink)
        x = _find(opening.inputs, "x", of.data, of) if of.source == self.party else None
        judged = of.sink == self.party and of.purpose != "infer"
        y = _find(opening.labels, "y", of.labels, of) if judged else None
        came = [
            make_crossing(wire, peer, _what(each.kind), _at(each.kind, each.header), each.header["part"], each.tensors)
            for peer, each in received.messages
        ]
        if tuple(sort_crossings(came)) != entry.received:
            raise GovernError(f"What was opened as received in {of} is not what '{self.party}' logged.")
        computation, self._sent = Computation(of, route, pieces, x, y), []
        if route[0].holder == self.party:
            for part in range(computation.parts):
                self._send_on(computation, 0, part, computation.forward(0, part))
        for _, message in received.messages:
            leg, part, payload = message.header["leg"], message.header["part"], Payload.read(message)
            computation.require_fit(_what(message.kind), leg, part, payload, f"What came in {of}")
            if message.kind == "activations":
                self._send_on(computation, leg, part, computation.forward(leg, part, payload))
            else:
                self._send_back(computation, leg, part, computation.backward(leg, part, payload))
        for crossing in entry.sent:
            if crossing not in self._sent:
                raise GovernError(
                    f"In {of} '{self.party}' sent {crossing.what} to '{crossing.peer}' that do not follow from its "
                    "piece and from what it had received."
                )
        if tuple(sort_crossings(self._sent)) != entry.sent:
            raise GovernError(f"In {of} '{self.party}' did not send all that follows from its piece.")
        if computation.metrics != entry.metrics:
            raise GovernError(f"In {of} '{self.party}' stated {entry.metrics}; what follows is {computation.metrics}.")
        if computation.training:
            pieces.update()

    def _send_on(self, computation: Computation, number: int, part: int, payload: Payload | None) -> None:
        if computation.route[number].sink:
            self._send_back(computation, number, part, payload)
        elif payload is not None:
            self._send(computation, number + 1, number, part, "activations", payload)

    def _send_back(self, computation: Computation, number: int, part: int, payload: Payload | None) -> None:
        if payload is not None:
            self._send(computation, number - 1, number - 1, part, "gradients", payload)

    def _send(self, computation: Computation, to: int, at: int, part: int, what: What, payload: Payload) -> None:
        peer, tensors = computation.route[to].holder, payload.message(what, {}).tensors
        self._sent.append(make_crossing(self.agreement.wire, peer, what, at, part, tensors))


def _find(known: Mapping[str, torch.Tensor], name: str, wanted: str, of: Pass) -> torch.Tensor:
    """The inputs or labels of a pass, which are known by their fingerprint."""
    found = known.get(wanted)
    if found is None or fingerprint({name: found}) != wanted:
        raise GovernError(f"The {'inputs' if name == 'x' else 'labels'} of {of} were not opened.")
    return found


def _what(kind: str) -> What:
    return "activations" if kind == "activations" else "gradients"


def _at(kind: str, header: Mapping[str, Any]) -> int:
    """The lower stage of the link that a message came over."""
    leg = int(header["leg"])
    return leg - 1 if kind == "activations" else leg
