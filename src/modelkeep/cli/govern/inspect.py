"""`modelkeep govern status` and `audit`: what the ledgers say, of one party and of all."""

from __future__ import annotations

import json
from collections import Counter, deque
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modelkeep.cli.govern.consent import FolderPath
from modelkeep.cli.govern.identity import AgreementFile, Json

if TYPE_CHECKING:
    from modelkeep.govern.folder import Folder

_EVENTS = 5  # of the newest that are shown
_PROTOCOL = ("standing", "intent", "prepared", "committed")  # they come with every session and pass


def status(folder: FolderPath = Path(), *, as_json: Json = False) -> None:
    """Say how a party stands, from its ledger: passes, those given up, what is left, bytes, news. Changes nothing."""
    from modelkeep.govern.folder import Folder

    party = Folder(folder)
    found = _standing(party)
    if as_json:
        typer.echo(json.dumps(found))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"{found['party']} · {found['agreement']}", show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    passes = [f"{each['passes']:,} to {each['purpose']}, asked by {each['asker']}" for each in found["passes"]]
    for label, value in (
        ("passes", "\n".join(passes) or "none"),
        ("committed", f"{found['committed']:,} of {found['entries']:,}"),
        ("given up", "\n".join(f"{count:,} to {purpose}" for purpose, count in found["given_up"].items()) or "none"),
        ("left", "\n".join(f"{left:,} to {purpose}" for purpose, left in found["left"].items()) or "without a limit"),
        ("updates", f"{found['updates']:,}"),
        ("sent, received", f"{found['sent'] / 1e6:,.1f} MB, {found['received'] / 1e6:,.1f} MB"),
        ("withdrawn", "\n".join(f"{purpose}: {why}" for purpose, why in found["withdrawn"].items()) or "nothing"),
        ("what happened last", "\n".join(f"{each['time']}  {each['text']}" for each in found["events"]) or "nothing"),
    ):
        table.add_row(label, Text(value))  # plain: what others wrote is no markup
    Console().print(table)


def audit(
    agreement: AgreementFile,
    ledgers: Annotated[
        list[Path], typer.Argument(help="The parties' ledgers: folders, ledger.sqlite3 or copies from `govern export`.")
    ],
    *,
    as_json: Json = False,
) -> None:
    """Hold the parties' ledgers against each other, and name every entry that was changed, left out or made up.

    Needs no key and no party. Exit status 1 if anything was found.
    """
    from modelkeep.govern.agreement.agreement import Agreement
    from modelkeep.govern.ledger import audit as cross_check

    found = cross_check(Agreement.read(agreement), _by_party(ledgers))
    if as_json:
        typer.echo(found.to_json())
    else:
        from rich.console import Console

        Console().print(found)
    raise typer.Exit(found.exit_status)


def _by_party(ledgers: list[Path]) -> dict[str, Path]:
    from modelkeep.core.errors import GovernError
    from modelkeep.govern.folder import Folder
    from modelkeep.govern.ledger import read_ledger

    found: dict[str, Path] = {}
    for path in ledgers:
        file = Folder(path).ledger if path.is_dir() else path
        party = read_ledger(file).party
        if party in found:
            raise GovernError(f"'{found[party]}' and '{file}' are both ledgers of '{party}'. Name one of them.")
        found[party] = file
    return found


def _standing(party: Folder) -> dict[str, Any]:
    from modelkeep.govern.agreement.agreement import Agreement
    from modelkeep.govern.ledger import Event, read_ledger
    from modelkeep.govern.ledger.statements import Account

    identity, agreement = party.public(), Agreement.read(party.agreement)
    found: dict[str, Any] = {"party": identity.name, "agreement": agreement.name, "signed": len(agreement.signatures)}
    found |= {"entries": 0, "committed": 0, "updates": 0, "sent": 0, "received": 0, "passes": [], "events": []}
    found |= {"given_up": {}, "left": dict(agreement.policy(identity.name).most)}
    if party.ledger.exists():
        reading = read_ledger(party.ledger)
        found["committed"] = reading.committed
        passes: Counter[tuple[str, str]] = Counter()
        for entry in reading.entries():
            passes[entry.of.purpose, entry.of.asker] += 1
            found["sent"] += sum(crossing.bytes for crossing in entry.sent)
            found["received"] += sum(crossing.bytes for crossing in entry.received)
        found["entries"] = sum(passes.values())
        found["updates"] = sum(count for (purpose, _), count in passes.items() if purpose == "train")
        found["passes"] = [{"purpose": p, "asker": a, "passes": count} for (p, a), count in passes.items()]
        account = Account(identity.name)
        last: deque[Event] = deque(maxlen=_EVENTS)
        for event in reading.events():
            account.take(event)
            if event.kind not in _PROTOCOL:
                last.append(event)
        found["given_up"] = dict(Counter(end.purpose for end in account.given_up()))
        most = agreement.policy(identity.name).most
        found["left"] = {purpose: limit - account.count(purpose) for purpose, limit in most.items()}
        found["events"] = [{"time": _clock(each.time), "kind": each.kind, "text": each.text} for each in last]
    return {**found, "withdrawn": _withdrawn(party)}


def _withdrawn(party: Folder) -> dict[str, str]:
    from modelkeep.govern.consent.policy import PURPOSES
    from modelkeep.govern.consent.state import ConsentState

    if not party.consent.exists():
        return {}
    state = ConsentState(party.consent)
    try:
        found = {purpose: state.withdrawal(purpose) for purpose in PURPOSES}
    finally:
        state.close()
    return {purpose: reason for purpose, reason in found.items() if reason is not None}


def _clock(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S")
