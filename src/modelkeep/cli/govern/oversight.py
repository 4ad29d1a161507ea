"""`modelkeep govern release` and `check`: to let the pieces out, and to check another party's work; both are passes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modelkeep.cli.govern.consent import FolderPath
from modelkeep.cli.govern.identity import Json
from modelkeep.cli.govern.run import Patience, make_teller, open_party
from modelkeep.cli.model_options import Device

if TYPE_CHECKING:
    from modelkeep.core.results import Result
    from modelkeep.govern.session.leader import Leader


def release(
    folder: FolderPath = Path(),
    *,
    receiver: Annotated[str | None, typer.Option(help="The party that gets all pieces; this one by default.")] = None,
    device: Device = "cpu",
    patience: Patience = 600.0,
    as_json: Json = False,
) -> None:
    """Ask all parties to let their pieces out, as they are now. Nothing leaves a machine by this alone.

    At each other party a person says `modelkeep govern approve --purpose release`. Then each one runs `govern export`
    and hands its file over, and `govern assemble` makes one model of them.
    """
    from modelkeep.govern.session.oversight import release as ask

    with _lead(folder, device, patience) as leader:
        found = ask(leader, to=receiver)
    _show(found, as_json)


def check(
    folder: FolderPath = Path(),
    *,
    of: Annotated[str, typer.Option(help="The party whose work is checked.")],
    device: Device = "cpu",
    patience: Patience = 600.0,
    as_json: Json = False,
) -> None:
    """Compute a pass of another party again, and see whether its piece gave what it sent. Exits with 1 if not.

    All parties draw the pass together, from the last ones (`draft --checked-passes`). The checked one shows you its
    piece, what it had received, and inputs or labels that it brought: so a person approves it at each other party, with
    `modelkeep govern approve --purpose check`. The verdict is signed, and every party keeps it.
    """
    from modelkeep.govern.session.oversight import check as examine

    with _lead(folder, device, patience) as leader:
        found = examine(leader, of)
    _show(found, as_json)
    raise typer.Exit(found.exit_status)


@contextmanager
def _lead(folder: Path, device: str, patience: float) -> Iterator[Leader]:
    from modelkeep.govern.session.leader import Leader

    with open_party(folder, device) as party:
        yield Leader(party, patience=patience, tell=make_teller())


def _show(found: Result, as_json: bool) -> None:
    if as_json:
        typer.echo(found.to_json())
        return
    from rich.console import Console

    Console().print(found)
