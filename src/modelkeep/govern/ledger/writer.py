"""What a party writes into its ledger: the passes (`LedgerWriter`), and all else that happens (`EventLog`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from time import monotonic
from typing import Literal

from torch import Tensor

from modelkeep.core.errors import PartyUnavailable, WireError
from modelkeep.govern.ledger.entry import Crossing
from modelkeep.govern.ledger.ledger import Ledger
from modelkeep.govern.ledger.receipt import Receipt
from modelkeep.govern.passes import Pass
from modelkeep.govern.wire.message import Digest
from modelkeep.govern.wire.settings import Wire

What = Literal["activations", "gradients", "opening"]
_LONGEST = 1000  # characters of what others say that are written down
_MOST = 200  # events in a minute


class LedgerWriter:
    """Notes what one party sends and receives, pass after pass, on a thread of its own: no pass waits for it.

    Digests are made when the party has nothing else to do (`catch_up`), or at the latest when the pass ends: while it
    computes, they would take the processor from what the other parties wait for.
    """

    def __init__(self, ledger: Ledger, wire: Wire) -> None:
        self._ledger, self._wire = ledger, wire
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="ledger")
        self._of: Pass | None = None
        self._brought: dict[tuple[object, ...], Crossing] = {}
        self._complete = False
        self._sent: list[_Noted] = []
        self._received: list[_Noted] = []
        self._due: list[_Noted] = []

    def begin(self, of: Pass) -> None:
        """Open a pass. Where it was begun before, it must bring the very same."""
        brought = self._ledger.attempts.brought(of)
        recorded = self._ledger.entry(of.number) if of.number < self._ledger.length else None
        self._complete = recorded is not None and recorded.of == of
        if recorded is not None and self._complete:
            brought += recorded.received
        self._brought = {_place(crossing): crossing for crossing in brought}
        self._sent, self._received, self._due = [], [], []
        self._of = of

    def note_sent(self, peer: str, what: What, at: int, part: int, tensors: Sequence[Tensor]) -> None:
        """Note what this party has sent; the tensors must not change any more."""
        self._sent.append(self._note(peer, what, at, part, tensors))

    def note_received(self, peer: str, what: What, at: int, part: int, tensors: Sequence[Tensor]) -> None:
        """Note what came. In a replay it must be what came before, so that a party cannot learn more by a replay."""
        coming = self._note(peer, what, at, part, tensors)
        before = self._brought.get((peer, what, at, part))
        same = not self._complete if before is None else self._worker.submit(coming.crossing).result() == before
        if not same:
            raise WireError(
                f"'{peer}' sent other {what} than before for {self._of}, which runs again after a fault. A replayed "
                "pass must be the very same."
            )
        self._received.append(coming)

    def catch_up(self) -> None:
        """Let the thread make the digests that are due."""
        if self._due:
            due, self._due = self._due, []
            self._worker.submit(lambda: [noted.crossing() for noted in due])

    @property
    def crossed(self) -> tuple[int, int]:
        """How many messages with tensors have come in this pass, and how many have left."""
        return len(self._received), len(self._sent)

    def received(self) -> list[Crossing]:
        """What has come in this pass."""
        return self._worker.submit(_sort, self._received).result()

    def finish(self, prepare: Callable[[list[Crossing], list[Crossing]], Receipt]) -> Future[Receipt]:
        """Let `prepare` log what was sent and what was received, when all of it is noted."""
        sent, received, self._due = self._sent, self._received, []
        return self._worker.submit(lambda: prepare(_sort(sent), _sort(received)))

    def close(self) -> None:
        """Finish what was begun."""
        self._worker.shutdown()

    def _note(self, peer: str, what: What, at: int, part: int, tensors: Sequence[Tensor]) -> _Noted:
        noted = _Noted(lambda: make_crossing(self._wire, peer, what, at, part, tensors))
        self._due.append(noted)
        return noted


class _Noted:
    """What has crossed, before and after its digest is made. Only the writer's thread asks for it."""

    def __init__(self, make: Callable[[], Crossing]) -> None:
        self._make: Callable[[], Crossing] | None = make
        self._made: Crossing | None = None

    def crossing(self) -> Crossing:
        """What the ledger says of it."""
        if self._make is not None:
            self._made = self._make()
            self._make = None  # and with it the tensors
        assert self._made is not None
        return self._made


def make_crossing(wire: Wire, peer: str, what: What, at: int, part: int, tensors: Sequence[Tensor]) -> Crossing:
    """What the ledger says of tensors that cross."""
    digest = Digest(wire)
    digest.update(tensors)
    return Crossing(peer, what, at, part, digest.hexdigest(), sum(tensor.nbytes for tensor in tensors))


def _place(crossing: Crossing) -> tuple[object, ...]:
    return crossing.peer, crossing.what, crossing.at, crossing.part


def _sort(noted: Sequence[_Noted]) -> list[Crossing]:
    return sort_crossings([each.crossing() for each in noted])


def sort_crossings(crossings: Sequence[Crossing]) -> list[Crossing]:
    """In an order that does not depend on who was faster."""
    return sorted(crossings, key=lambda c: (c.at, c.what, c.part, c.peer))


class EventLog:
    """Writes events into the ledger, and passes each text on to `on_event`, such as a live view."""

    def __init__(self, ledger: Ledger, on_event: Callable[[str], None]) -> None:
        self._ledger, self._on_event = ledger, on_event
        self._times: deque[float] = deque(maxlen=_MOST)
        self._left_out = 0

    def note_refusal(self, sentence: str, of: Pass | None = None) -> None:
        """Write down a refusal, of a pass or of something else."""
        self.write("refused", sentence, of)

    def write(self, kind: str, text: str, of: Pass | None = None) -> None:
        """Write an event down. A full disk is not an error here: it may be the very trouble that is reported.

        Other parties can cause a flood of events, so only `_MOST` of a minute are written.
        """
        self._on_event(text)
        now = monotonic()
        if len(self._times) == _MOST and now - self._times[0] < 60:
            self._left_out += 1
            return
        more = f" ({self._left_out} events before it were too many to write down.)" if self._left_out else ""
        self._times.append(now)
        self._left_out = 0
        names = ("number", "purpose", "asker", "rows")
        about = {} if of is None else {name: getattr(of, name) for name in names}
        with suppress(PartyUnavailable):
            self._ledger.event(kind, text[:_LONGEST] + more, **about)
