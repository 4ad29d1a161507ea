"""BoardApprovals: the signed approvals of a party's board, and how often each was spent, with the party's consents."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Sequence

from modelkeep.core.errors import GovernError
from modelkeep.core.signing import canonical
from modelkeep.govern.consent.board import Approval, Board, choose
from modelkeep.govern.consent.file import ConsentFile
from modelkeep.govern.consent.windows import at
from modelkeep.govern.passes import Pass, Purpose, read

SCHEMA = "CREATE TABLE IF NOT EXISTS board (nonce TEXT PRIMARY KEY, line TEXT NOT NULL, spent INTEGER NOT NULL)"


class BoardApprovals:
    """The approvals in a party's file of consents. `note` writes a change for the party's account, `wait` a pass."""

    def __init__(
        self,
        file: ConsentFile,
        note: Callable[[sqlite3.Connection, str, str], None],
        wait: Callable[[sqlite3.Connection, Pass, float], None],
        grant: Callable[[sqlite3.Connection, Pass, str], bool],
    ) -> None:
        self._file, self._note, self._wait, self._grant = file, note, wait, grant

    def add(self, approval: Approval, board: Board, agreement: str, party: str) -> None:
        """Keep an approval that the policy allows. One that the same person has given already is refused."""
        approval.check(board, agreement, party, time.time())
        with self._file.changing() as db:
            for kept, spent in _read(db):
                same = kept.approver == approval.approver and kept.purpose == approval.purpose
                alike = same and (kept.asker, kept.only) == (approval.asker, approval.only)
                if kept.nonce == approval.nonce or (alike and kept.until > time.time() and spent < kept.passes):
                    raise GovernError(
                        f"'{approval.approver}' has approved that already, for {kept.passes - spent} more passes until "
                        f"{at(kept.until)}. Each person of a board counts once."
                    )
            line = canonical(approval.values()).decode()
            db.execute("INSERT INTO board VALUES (?, ?, 0)", (approval.nonce, line))
            asker = approval.asker or "any party"
            which = f"the pass {approval.only[:12]}…" if approval.only else f"{approval.passes} passes"
            text = f"'{approval.approver}' of the board approves {which} to {approval.purpose}, asked by {asker}"
            self._note(db, "approved", f"{text}, until {at(approval.until)}.")

    def left(self, board: Board, purpose: Purpose, now: float) -> dict[str, int]:
        """How many passes for the purpose each person of the board has approved that were not made yet."""
        with self._file.reading() as db:
            kept = _read(db)
        found = dict.fromkeys(board.approvers, 0)
        for approval, spent in kept:
            if approval.approver in found and approval.purpose == purpose and approval.until > now:
                found[approval.approver] += max(0, approval.passes - spent)
        return found

    def spend(
        self, of: Pass, board: Board, party: str, now: float, record: Callable[[Sequence[Approval]], object]
    ) -> tuple[bool, list[str]]:
        """Spend approvals of the needed people on the pass, once: whether there were enough, and who has approved it.

        `record` writes them into the party's account, and only then they are spent: a process that ends in between
        writes them again.
        """
        with self._file.changing() as db:
            chosen, people = choose(board, _read(db), of, party, now)
            if not chosen:
                self._wait(db, of, now)
                return False, people
            record(chosen)
            if self._grant(db, of, board.name):
                for approval in chosen:
                    db.execute("UPDATE board SET spent = spent + 1 WHERE nonce = ?", (approval.nonce,))
            db.execute("DELETE FROM waiting WHERE number = ?", (of.number,))
        return True, people


def _read(db: sqlite3.Connection) -> list[tuple[Approval, int]]:
    found = db.execute("SELECT line, spent FROM board ORDER BY rowid").fetchall()
    return [(read(Approval, json.loads(line)), int(spent)) for line, spent in found]
