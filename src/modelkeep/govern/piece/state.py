"""PieceState: after which update a party's part of the model is, in memory and in the checkpoints on disk."""

from __future__ import annotations

from modelkeep.govern.ledger.ledger import Ledger
from modelkeep.govern.piece.checkpoints import Checkpoints
from modelkeep.govern.piece.held_pieces import HeldPieces


class PieceState:
    """The pieces of one party and their checkpoints. It begins at the newest checkpoint.

    `uncommitted` is set while a training pass may have changed the pieces and is not committed yet.
    """

    def __init__(self, pieces: HeldPieces, checkpoints: Checkpoints, ledger: Ledger) -> None:
        self.pieces, self.checkpoints, self._ledger = pieces, checkpoints, ledger
        self.uncommitted = False
        steps = checkpoints.steps()
        if steps:
            pieces.restore(checkpoints.read(steps[-1]))
        else:
            self.keep()

    @property
    def committed_step(self) -> int | None:
        """After how many updates the pieces are; None while one of these is not committed."""
        return None if self.uncommitted else self.pieces.step

    def go_to(self, step: int) -> None:
        """Take the state after `step` updates, and keep it: all parties have this one in common."""
        if self.committed_step != step:
            self.pieces.restore(self.checkpoints.read(step))
            self.uncommitted = False
            self._ledger.event("rewound", f"Went to the checkpoint after {step} updates.", step=step)
        self.checkpoints.forget_after(step)
        self.keep()

    def keep(self) -> None:
        """Write a checkpoint; all passes that led to it are on disk before it."""
        if self.committed_step is not None and self.committed_step not in self.checkpoints.steps():
            self._ledger.sync()
            self.checkpoints.write(self.pieces.step, self.pieces.snapshot())

    def keep_when_due(self) -> None:
        """Write a checkpoint after as many updates as the agreement says."""
        if self.pieces.step % self.pieces.agreement.checkpoint_every == 0:
            self.keep()
