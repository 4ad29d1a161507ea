"""SpotCheck: a pass in which a party opens an earlier one that was drawn, and the asker computes it again."""

from __future__ import annotations

from typing import Any

import torch

from modelkeep.core.errors import GovernError
from modelkeep.govern.ledger.ledger import Ledger
from modelkeep.govern.passes import Pass
from modelkeep.govern.piece.computation import Computation
from modelkeep.govern.piece.held_pieces import HeldPieces
from modelkeep.govern.piece.openings import read_opening
from modelkeep.govern.piece.recomputation import Recomputation


class SpotCheck(Computation):
    """A check at one party: the asker waits for the opening, the checked one sends it, the others do nothing."""

    def __init__(self, of: Pass, pieces: HeldPieces) -> None:
        super().__init__(of, (), pieces, None, None)
        self.opened = False
        self.verdict: dict[str, Any] = {}

    @property
    def done(self) -> bool:
        """Whether this party has done its share."""
        if self.pieces.party == self.of.asker:
            return bool(self.verdict)
        return self.opened or self.pieces.party != self.of.sink

    def due(self, peer: str, what: str, number: Any, part: Any) -> bool:
        """Whether the opening is still to come."""
        asks = self.pieces.party == self.of.asker and not self.verdict
        return asks and what == "opening" and peer == self.of.sink and (number, part) == (0, 0)

    def largest(self, what: str, number: int, part: int) -> int:
        """How many bytes an opening may have: what a message may."""
        return self.pieces.agreement.wire.largest

    def examine(self, octets: torch.Tensor, number: int, ledger: Ledger) -> None:
        """Compute the pass of that number again. What does not follow from what was opened is the verdict."""
        agreement, party = self.pieces.agreement, self.of.sink
        again = Recomputation(agreement, party, lambda each: ledger.receipts.all_prepared(party, each))
        found = {"party": party, "number": number, "wrong": ""}
        try:
            again.check(read_opening(octets), number)
        except GovernError as error:
            found["wrong"] = str(error)
        except Exception as error:  # what another party opens may cause anything
            found["wrong"] = f"What was opened cannot be computed with: {error!r:.200}"
        self.verdict = {**found, "recomputed": again.passes}
