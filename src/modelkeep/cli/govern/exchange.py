"""`modelkeep govern exchange`: an agreement and its signatures go from party to party by themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from modelkeep.cli.govern.consent import FolderPath
from modelkeep.cli.govern.identity import Json
from modelkeep.cli.govern.run import Patience


def exchange(
    folder: FolderPath = Path(),
    *,
    known: Annotated[
        list[Path] | None, typer.Option("--with", help="Another party's NAME.party.json; once for each, and only once.")
    ] = None,
    at: Annotated[
        str | None, typer.Option(help="Where to listen, as HOST:PORT; as the agreement says by default.")
    ] = None,
    patience: Patience = 3600.0,
    as_json: Json = False,
) -> None:
    """Propose the agreement in the folder to the other parties, or wait for one, until all have all signatures.

    Nothing is signed by it: a person reads a proposal and says `modelkeep govern sign`, also while this runs.
    """
    from modelkeep.core.errors import GovernError
    from modelkeep.govern.folder import Folder
    from modelkeep.govern.session.exchange import Exchange, know_parties, missing_signatures

    party = Folder(folder)
    identity = party.identity()
    running = Exchange(party, identity, know_parties(party, known or []), lambda text: typer.echo(text, err=as_json))
    agreement = running.run(at, patience)
    if agreement is None:
        own = running.agreement()
        what = "No agreement has come" if own is None else f"Not signed yet by {', '.join(missing_signatures(own))}"
        raise GovernError(f"{what}, after {patience:g} seconds. Say the same again to go on.")
    agreement.check_signed()
    if as_json:
        typer.echo(json.dumps({"party": identity.name, "agreement": agreement.fingerprint, "missing": []}))
        return
    typer.echo(f"All have signed; {party.agreement} is complete.")
