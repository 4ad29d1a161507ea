"""`modelkeep govern exchange`, as a person and a script see it."""

from __future__ import annotations

import json
from pathlib import Path

from cli.running import Run
from govern.exchanging import met, sign


def test_who_was_not_there_in_time_is_told_and_the_rest_is_kept(modelkeep: Run, tmp_path: Path) -> None:
    draft, folders = met(tmp_path)
    sign(folders["alice"], draft)
    ran = modelkeep("govern", "exchange", "alice", "--patience", "0")
    assert ran.code == 4
    assert "Not signed yet by bob, carol" in " ".join(ran.err.split())
    ran = modelkeep("govern", "exchange", "bob", "--patience", "0")
    assert "Say --at HOST:PORT" in " ".join(ran.err.split())
    for name in ("bob", "carol"):
        draft = draft.sign(folders[name].identity())
    draft.sign(folders["alice"].identity()).write(folders["alice"].agreement)
    ran = modelkeep("govern", "exchange", "alice", "--patience", "0", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out) == {"party": "alice", "agreement": draft.fingerprint, "missing": []}
