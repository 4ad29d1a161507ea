"""`modelkeep govern status` and `audit`: what the ledgers say, of one party and of all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from modelkeep.cli.checks import check_out
from modelkeep.cli.govern.consent import FolderPath
from modelkeep.cli.govern.identity import AgreementFile, Json


def status(
    folder: FolderPath = Path(),
    *,
    everything: Annotated[bool, typer.Option("--all", help="All lines, not only the last 20.")] = False,
    as_json: Json = False,
) -> None:
    """Show a party's account like a bank statement: who asked for what, what became of it, and what remains.

    It reads the ledger and changes nothing, also while the party serves.
    """
    from modelkeep.govern.folder import Folder
    from modelkeep.govern.standing import read_standing

    standing = read_standing(Folder(folder))
    if as_json:
        typer.echo(json.dumps(standing.values()))
        return
    typer.echo(standing.text(everything))


def audit(
    agreement: AgreementFile,
    ledgers: Annotated[
        list[Path], typer.Argument(help="The parties' ledgers: folders, ledger.sqlite3 or copies from `govern export`.")
    ],
    *,
    out: Annotated[Path | None, typer.Option(help="The folder for audit.html and audit.json; else none.")] = None,
    as_json: Json = False,
) -> None:
    """Hold the parties' ledgers against each other, and name every entry that was changed, left out or made up.

    Needs no key and no party. Exit status 1 if anything was found.
    """
    from modelkeep.govern.agreement.agreement import Agreement
    from modelkeep.govern.ledger import audit as cross_check

    check_out(out)
    found = cross_check(Agreement.read(agreement), _by_party(ledgers))
    if out is not None:
        from modelkeep.report.ledger_audit import ledger_audit_page

        page, _ = ledger_audit_page(found).write(out, "audit.html", "audit.json")
        typer.echo(f"The page: {page.resolve()}", err=True)
    if as_json:
        typer.echo(found.to_json())
    else:
        typer.echo(found.text())
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
