"""LedgerWriter: records what crosses in a pass on its own thread, so that the pass does not wait."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Literal

from torch import Tensor

from modelkeep.core.errors import WireError
from modelkeep.govern.ledger.entry import Crossing, Entry
from modelkeep.govern.ledger.ledger import Ledger
from modelkeep.govern.passes import Consent, Pass
from modelkeep.govern.wire.digest import Digest
from modelkeep.govern.wire.settings import Wire

What = Literal["activations", "gradients"]


class LedgerWriter:
    """What one party sends and receives, pass after pass."""

    def __init__(self, ledger: Ledger, wire: Wire) -> None:
        self._ledger, self._wire = ledger, wire
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="ledger")
        self._of: Pass | None = None
        self._consents: tuple[Consent, ...] = ()
        self._recorded: dict[tuple[object, ...], Crossing] = {}
        self._complete = False
        self._sent: list[Future[Crossing]] = []
        self._received: list[Future[Crossing]] = []

    def begin(self, of: Pass, consents: Sequence[Consent]) -> None:
        """Open a pass. Where it was begun before, here or in the ledger, it runs again and must be the very same."""
        before = [crossing.result() for crossing in self._received] if of == self._of else []
        recorded = self._ledger.entry(of.number) if of.number < self._ledger.length else None
        self._complete = recorded is not None and recorded.of == of
        if recorded is not None and self._complete:
            before += recorded.received
        kept = self._recorded if of == self._of else {}
        self._recorded = {**kept, **{_place(crossing): crossing for crossing in before}}
        self._sent, self._received = [], []
        self._of, self._consents = of, tuple(consents)

    def note_sent(self, peer: str, what: What, at: int, part: int, tensors: Sequence[Tensor]) -> None:
        """Note what this party has sent; the tensors must not change any more."""
        self._sent.append(self._worker.submit(self._crossing, peer, what, at, part, tensors))

    def note_received(self, peer: str, what: What, at: int, part: int, tensors: Sequence[Tensor]) -> None:
        """Note what came. In a replay it must be what came before, so that a party cannot learn more by a replay."""
        coming = self._worker.submit(self._crossing, peer, what, at, part, tensors)
        before = self._recorded.get((peer, what, at, part))
        same = not self._complete if before is None else coming.result() == before
        if not same:
            raise WireError(
                f"'{peer}' sent other {what} than before for {self._of}, which runs again after a fault. A replayed "
                "pass must be the very same."
            )
        self._received.append(coming)

    @property
    def crossed(self) -> tuple[int, int]:
        """How many messages with tensors have come in this pass, and how many have left."""
        return len(self._received), len(self._sent)

    def finish(self) -> Future[Entry]:
        """Prepare the pass's entry in the ledger."""
        assert self._of is not None
        of, consents, sent, received = self._of, self._consents, self._sent, self._received

        def prepare() -> Entry:
            return self._ledger.prepare(of, consents, _sort(sent), _sort(received))

        return self._worker.submit(prepare)

    def close(self) -> None:
        """Finish what was begun."""
        self._worker.shutdown()

    def _crossing(self, peer: str, what: What, at: int, part: int, tensors: Sequence[Tensor]) -> Crossing:
        digest = Digest(self._wire)
        digest.update(tensors)
        return Crossing(peer, what, at, part, digest.hexdigest(), sum(tensor.nbytes for tensor in tensors))


def _place(crossing: Crossing) -> tuple[object, ...]:
    return crossing.peer, crossing.what, crossing.at, crossing.part


def _sort(crossings: Sequence[Future[Crossing]]) -> list[Crossing]:
    """In an order that does not depend on who was faster."""
    return sorted((c.result() for c in crossings), key=lambda c: (c.at, c.what, c.part, c.peer))
