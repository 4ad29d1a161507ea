"""Where a party's part of the model stands: its state in memory, and the two newest checkpoints on disk."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from modelkeep.core.errors import CheckpointError, GovernError, PartyUnavailable
from modelkeep.govern.ledger.ledger import Ledger
from modelkeep.govern.piece.held_pieces import HeldPieces
from modelkeep.training import checkpoint
from modelkeep.training.checkpoint import Snapshot, Wording

WORDING = Wording(
    keeps="checkpoint",
    redo="begin",
    unwritten="The training stopped at this party; what it has written is untouched. Make room, then go on.",
)
_KEPT = 2  # a party is never further ahead of another than one checkpoint, so two of each suffice to have one in common


class Checkpoints:
    """The checkpoints in a folder, by the number of updates."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def steps(self) -> list[int]:
        """After which updates there is one, in order."""
        return sorted(int(path.stem.split("-")[1]) for path in self._folder.glob("step-*.safetensors"))

    def write(self, step: int, snapshot: Snapshot) -> None:
        """Keep a state whole or not at all, and remove those that are no longer needed."""
        try:
            checkpoint.write(self.path(step), snapshot.to_bytes(), WORDING)
        except CheckpointError as error:
            raise PartyUnavailable(str(error)) from error  # until there is room again
        self._forget(self.steps()[:-_KEPT])

    def archive_after(self, step: int) -> None:
        """Put away what lies after `step`: the parties go that way again, and keep it again together.

        Nothing is deleted: another party may have asked to go back without need. What is archived twice with the same
        content lies there once.
        """
        newer = [each for each in self.steps() if each > step]
        if newer:
            archive = self._folder / "archive"
            archive.mkdir(exist_ok=True)
            for each in newer:
                path = self.path(each)
                content = sha256(path.read_bytes()).hexdigest()[:16]
                path.replace(archive / f"{path.stem}-{content}.safetensors")

    def read(self, step: int) -> Snapshot:
        """The state after `step` updates."""
        path = self.path(step)
        try:
            payload = checkpoint.read(path, WORDING)
            if payload is None:
                raise GovernError(f"There is no checkpoint after {step} updates in '{self._folder}'.")
            found = Snapshot.from_bytes(payload, f"The checkpoint {path}", WORDING)
        except CheckpointError as error:
            raise GovernError(str(error)) from error
        if found.values.get("step") != step:
            raise GovernError(f"The checkpoint {path} says that it is of step {found.values.get('step')}.")
        return found

    def _forget(self, steps: list[int]) -> None:
        for step in steps:
            self.path(step).unlink(missing_ok=True)

    def path(self, step: int) -> Path:
        """Where the state after `step` updates is kept."""
        return self._folder / f"step-{step:09d}.safetensors"


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
        self.checkpoints.archive_after(step)
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
