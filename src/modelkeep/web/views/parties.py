"""Parties: how each party of a governed model stands by its own folder, and whether their ledgers agree."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from modelkeep.core.errors import GovernError, ModelKeepError
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.folder import Folder
from modelkeep.govern.ledger import audit as cross_check
from modelkeep.govern.standing import Standing, read_standing
from modelkeep.report.ledger_audit import ledger_audit_page
from modelkeep.report.page import Card, Note
from modelkeep.web.pages import show

router = APIRouter()
_LINES = 30  # of the newest of an account
_MOST = 20  # parties


@dataclass(frozen=True)
class Party:
    """A folder, and how its party stands; or why that cannot be read."""

    folder: str
    standing: Standing | None
    why: str = ""


@dataclass(frozen=True)
class Checked:
    """What the ledgers say when they are held against each other."""

    verdict: str
    level: str
    cards: tuple[Card, ...]
    notes: tuple[Note, ...]


@router.get("/parties")
def page(request: Request, folders: Annotated[str, Query(max_length=8000)] = "") -> HTMLResponse:
    """The parties whose folders the address names, one per line. Nothing in the folders is changed."""
    named = [line.strip() for line in folders.splitlines() if line.strip()][:_MOST]
    parties = [_read(folder) for folder in named]
    ledgers = [Folder(Path(party.folder)) for party in parties if party.standing is not None]
    checked, why = _check([each for each in ledgers if each.ledger.exists()])
    return show(request, "parties.html", folders=folders, parties=parties, checked=checked, why=why, most_lines=_LINES)


def _read(folder: str) -> Party:
    try:
        return Party(folder, read_standing(Folder(Path(folder).expanduser())))
    except (ModelKeepError, OSError) as error:
        return Party(folder, None, str(error))


def _check(folders: list[Folder]) -> tuple[Checked | None, str]:
    """The ledgers held against each other, or why that cannot be done."""
    if not folders:
        return None, ""
    try:
        by_party = {each.public().name: each.ledger for each in folders}
        if len(by_party) < len(folders):
            raise GovernError("Two of the folders are of the same party.")
        shown = ledger_audit_page(cross_check(Agreement.read(folders[0].agreement), by_party))
    except (ModelKeepError, OSError) as error:
        return None, str(error)
    return Checked(shown.verdict, shown.verdict_level, shown.cards, shown.notes), ""
