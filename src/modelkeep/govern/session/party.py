"""Party: one owner's side of a governed model, with all that lies in its folder."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from typing import Self

from modelkeep.core.data import Data
from modelkeep.govern.consent.decision import ConsentDecision
from modelkeep.govern.consent.policy import Policy
from modelkeep.govern.consent.state import ConsentState
from modelkeep.govern.documents import read_document
from modelkeep.govern.folder import Folder
from modelkeep.govern.ledger.ledger import Ledger
from modelkeep.govern.ledger.writer import EventLog, LedgerWriter
from modelkeep.govern.piece.checkpoints import Checkpoints, PieceState
from modelkeep.govern.piece.files import read_piece
from modelkeep.govern.piece.held_pieces import HeldPieces
from modelkeep.govern.piece.materials import Materials
from modelkeep.govern.piece.openings import Openings
from modelkeep.govern.session.links import Links
from modelkeep.govern.session.member import answer_at_once
from modelkeep.govern.session.pass_participant import PassParticipant
from modelkeep.govern.session.pass_record import PassRecord
from modelkeep.govern.session.session_protocol import SessionParticipant
from modelkeep.govern.session.status import Status
from modelkeep.govern.session.turn import Turn


class Party:
    """One party, in one process. `serve` lets it take part in what others lead, and `Leader` lets it lead.

    Args:
        folder: The party's folder.
        data: The data sets that it can bring inputs or labels of.
        device: Where its pieces compute.
    """

    def __init__(self, folder: Folder, *, data: Iterable[Data] = (), device: str = "cpu") -> None:
        with ExitStack() as opened:
            opened.enter_context(folder.lock())
            identity = folder.identity()
            self.name = identity.name
            self.agreement = folder.signed_agreement()
            keys = folder.key_history().require_all()
            self.ledger = opened.enter_context(Ledger(folder.ledger, self.name, identity.signer))
            self.status = Status(self.name)
            self.events = EventLog(self.ledger, self.status.add_news)
            consents = ConsentState(folder.consent)
            opened.callback(consents.close)
            policies = [self.agreement.policy(self.name)]
            if folder.policy.exists():
                policies.append(read_document(Policy, folder.policy, "a policy"))
            tensors = read_piece(folder.piece, self.agreement, self.name)
            self.pieces = HeldPieces(self.agreement, self.name, tensors, device)
            self.state = PieceState(self.pieces, Checkpoints(folder.checkpoints), self.ledger)
            self.materials = Materials(self.name, data)
            writer = LedgerWriter(self.ledger, self.agreement.wire)
            opened.callback(writer.close)
            self.links = Links(self.agreement, identity, keys, self.events.note_refusal)
            self.links.on_idle = writer.catch_up
            decision = ConsentDecision(policies, consents, self.name, self.ledger)
            self.passes = PassParticipant(
                name=self.name,
                agreement=self.agreement,
                ledger=self.ledger,
                events=self.events,
                writer=writer,
                decision=decision,
                record=PassRecord(
                    self.name, keys, self.ledger, decision, identity.signer, self.agreement.limits.consent_seconds
                ),
                state=self.state,
                materials=self.materials,
                links=self.links,
                status=self.status,
                openings=Openings(folder.openings, self.state.checkpoints, self.agreement.limits.checked_passes),
            )
            self.sessions = SessionParticipant(self.passes, keys)
            self.turn = Turn(self.name, list(keys))
            self.links.listen(partial(answer_at_once, self.passes, self.turn), self.passes.admits)
            opened.callback(self.links.close)
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all connections, finish what is being written, and unlock the folder."""
        self._opened.close()
