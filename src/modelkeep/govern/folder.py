"""Folder: where a party keeps what is its own, and that only one process at a time works there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from modelkeep.core.errors import FolderInUse, GovernError
from modelkeep.govern.identity import KEY, PUBLIC, Identity, PublicIdentity, read_public

if TYPE_CHECKING:
    from modelkeep.govern.agreement.agreement import Agreement
    from modelkeep.govern.agreement.key_history import KeyHistory


@dataclass(frozen=True)
class Folder:
    """A party's folder. `policy` is the party's own and need not be there; all else comes with its first use.

    >>> Folder(Path("alice")).piece
    PosixPath('alice/piece.safetensors')
    """

    path: Path

    @property
    def agreement(self) -> Path:
        """What all parties signed."""
        return self.path / "agreement.json"

    @property
    def policy(self) -> Path:
        """What this party demands beyond the agreement; the others need not know it."""
        return self.path / "policy.json"

    @property
    def piece(self) -> Path:
        """The party's part of the weights."""
        return self.path / "piece.safetensors"

    @property
    def ledger(self) -> Path:
        """Every pass that the party took part in."""
        return self.path / "ledger.sqlite3"

    @property
    def consent(self) -> Path:
        """What was withdrawn, and what a human approved."""
        return self.path / "consent.sqlite3"

    @property
    def checkpoints(self) -> Path:
        """The party's state at some of the steps."""
        return self.path / "checkpoints"

    @property
    def openings(self) -> Path:
        """What the party has to show of its last passes, if another one checks them."""
        return self.path / "openings"

    @property
    def parties(self) -> Path:
        """What the other parties have handed over: a NAME.party.json of each."""
        return self.path / "parties"

    @property
    def control(self) -> Path:
        """The socket at which the process that serves here takes requests of commands; there while it runs."""
        return self.path / "control.sock"

    @property
    def next_identity(self) -> Path:
        """The key that the party has made and that does not speak yet (`modelkeep govern keys`)."""
        return self.path / "next"

    def public(self) -> PublicIdentity:
        """Whose folder it is; that takes no passphrase."""
        self._finish_key_change()
        return read_public(self.path)

    def identity(self) -> Identity:
        """Whose folder it is, with the key to sign."""
        self._finish_key_change()
        return Identity.read(self.path)

    def signed_agreement(self) -> Agreement:
        """The agreement, if all have signed it and the key of this party is the last that it has under it."""
        history = self.key_history()
        history.require_member(self.public())
        return history.agreement

    def key_history(self) -> KeyHistory:
        """The keys of all parties: those of the agreement, and the changes that this party has taken in."""
        from modelkeep.govern.agreement.agreement import Agreement
        from modelkeep.govern.agreement.key_change import KeyChange
        from modelkeep.govern.agreement.key_history import KeyHistory
        from modelkeep.govern.ledger.reader import read_ledger
        from modelkeep.govern.passes import read

        agreement = Agreement.read(self.agreement)
        agreement.check_signed()
        logged = read_ledger(self.ledger).key_changes() if self.ledger.exists() else ()
        return KeyHistory.of(agreement, [read(KeyChange, event.values.get("change")) for event in logged])

    def _finish_key_change(self) -> None:
        """Let the next key take the place of the old one, once the ledger says that it speaks; also after a crash."""
        following = self.next_identity
        if not (following / PUBLIC).is_file() or not self.ledger.exists():
            return
        # Here, because it imports torch, for which a person who withdraws consent must not wait.
        from modelkeep.govern.ledger.reader import read_ledger

        if read_public(following).public_key != read_ledger(self.ledger).public_key:
            return
        for file in (KEY, PUBLIC):  # in this order: while the second is there, this is done again
            with suppress(FileNotFoundError):  # it was moved before
                (following / file).replace(self.path / file)
        shutil.rmtree(following, ignore_errors=True)
        public = read_public(self.path)
        public.write(self.path / f"{public.name}.party.json")

    @contextmanager
    def agreement_lock(self) -> Iterator[None]:
        """Change the agreement's file alone: a person may sign it while other signatures come."""
        from filelock import FileLock

        with FileLock(self.path / ".agreement.lock"):
            yield

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Work in the folder alone. A process that was killed holds nothing back."""
        from filelock import FileLock, Timeout

        # Not per thread: the thread that ends the party may not be the one that began it.
        lock = FileLock(self.path / ".lock", timeout=0, thread_local=False)
        try:
            lock.acquire()
        except Timeout as error:
            raise FolderInUse(
                f"Another process works in '{self.path}'. A party is one process: end that one, or wait for it."
            ) from error
        except OSError as error:
            raise GovernError(f"'{self.path}' cannot be locked: {error.strerror}.") from error
        try:
            yield
        finally:
            lock.release()
