"""`modelkeep govern keys`: another key for a party, or none: asked for, signed by the others, and logged by all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modelkeep.cli.govern.identity import Json, NoPassphrase, choose, spoken

if TYPE_CHECKING:
    from modelkeep.govern.agreement.key_change import KeyChange
    from modelkeep.govern.folder import Folder

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Show and change the keys of the parties.\n\n"
    "A change is a file that goes from party to party, as an agreement does: one asks for it, the others sign it "
    "(`keys sign`), and each takes it in when all have. The party that is first by name signs last. No pass may run "
    "meanwhile, so end `serve` and `train` first. What was signed with an old key stays valid.",
)
PartyFolder = Annotated[Path, typer.Argument(help="Your own folder.")]
Other = Annotated[str, typer.Argument(help="The party whose key it is.")]
Out = Annotated[Path, typer.Option(help="The file for the change, to hand on.")]
Reason = Annotated[str, typer.Option(help="Why; the other parties are told.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do so without being asked.")]
FILE = Path("key-change.json")


@app.command(epilog="Example: modelkeep govern keys show alice")
def show(folder: PartyFolder, *, as_json: Json = False) -> None:
    """Show which key speaks for whom, and every change so far, as this party has taken them in."""
    from modelkeep.govern.folder import Folder

    history = Folder(folder).key_history()
    keys = {name: spoken(history.current[name]) if name in history.current else "" for name in history.names}
    if as_json:
        typer.echo(json.dumps({"keys": keys, "changes": [_values(change) for change in history.changes]}))
        return
    for name, key in keys.items():
        typer.echo(f"key of {name}:  {key or 'none: it was revoked, or the party has left'}")
    for change in history.changes:
        typer.echo(f"{change}. Signed by {', '.join(sorted(change.consents))}.")


@app.command(epilog="Example: modelkeep govern keys rotate alice --out key-change.json")
def rotate(
    folder: PartyFolder,
    *,
    out: Out = FILE,
    reason: Reason = "",
    no_passphrase: NoPassphrase = False,
    as_json: Json = False,
) -> None:
    """Make yourself a new key, and ask the others to consent to it. Until all have signed, the old one speaks."""
    from modelkeep.cli.checks import check_out_file
    from modelkeep.govern.folder import Folder
    from modelkeep.govern.identity import Identity, is_identity
    from modelkeep.govern.key_changes import ask_for_change

    check_out_file(out)
    party = Folder(folder)
    name, place = party.public().name, party.next_identity
    passphrase = None if is_identity(place) else choose(f"the new key of '{name}'", no_passphrase)
    new = Identity.at(place, name, passphrase).public
    _hand_on(party, ask_for_change(party, "rotate", new=new, reason=reason), out, as_json)


@app.command(epilog="Example: modelkeep govern keys replace alice bob --new bob.party.json --reason 'laptop stolen'")
def replace(
    folder: PartyFolder,
    party: Other,
    *,
    new: Annotated[Path, typer.Option(help="The party's new <name>.party.json.")],
    reason: Reason,
    out: Out = FILE,
    as_json: Json = False,
) -> None:
    """Ask for a new key for another party, which has lost its own or had it stolen. All others must sign.

    That party makes it with `modelkeep govern init bob --folder bob/next` and hands over `bob/next/bob.party.json`. You
    compare the fingerprint by phone, with a voice that you know: who has this key, speaks for that party.
    """
    from modelkeep.cli.checks import check_out_file
    from modelkeep.govern.folder import Folder
    from modelkeep.govern.identity import PublicIdentity
    from modelkeep.govern.key_changes import ask_for_change

    check_out_file(out)
    own = Folder(folder)
    change = ask_for_change(own, "replace", party=party, new=PublicIdentity.read(new), reason=reason)
    _hand_on(own, change, out, as_json)


@app.command(epilog="Example: modelkeep govern keys revoke alice bob --reason 'laptop stolen'")
def revoke(folder: PartyFolder, party: Other, *, reason: Reason, out: Out = FILE, as_json: Json = False) -> None:
    """Ask that nothing more of another party's key is accepted. All others must sign; then nothing runs."""
    from modelkeep.cli.checks import check_out_file
    from modelkeep.govern.folder import Folder
    from modelkeep.govern.key_changes import ask_for_change

    check_out_file(out)
    own = Folder(folder)
    _hand_on(own, ask_for_change(own, "revoke", party=party, reason=reason), out, as_json)


@app.command(epilog="Example: modelkeep govern keys leave carol --reason 'the contract has ended'")
def leave(
    folder: PartyFolder, *, reason: Reason = "", out: Out = FILE, yes: Yes = False, as_json: Json = False
) -> None:
    """Leave the agreement for good. That needs no consent, and nothing runs under it any more. It cannot be undone.

    To stop for a while, say `modelkeep govern withdraw`.
    """
    from modelkeep.cli.checks import check_out_file
    from modelkeep.core.errors import GovernError
    from modelkeep.govern.folder import Folder
    from modelkeep.govern.key_changes import ask_for_change

    check_out_file(out)
    own = Folder(folder)
    name = own.public().name
    if not yes and not typer.confirm(f"'{name}' leaves for good, and the model runs for none any more. Leave?"):
        raise GovernError("Nothing was changed.")
    _hand_on(own, ask_for_change(own, "leave", reason=reason), out, as_json)


@app.command(epilog="Example: modelkeep govern keys sign key-change.json --folder bob")
def sign(
    file: Annotated[Path, typer.Argument(help="The file with the change.")],
    *,
    folder: Annotated[Path, typer.Option(help="Your own folder.")],
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Read a change, sign it, and hand it on; or take it in, when all have signed. Each says this until all have it."""
    from modelkeep.core.errors import GovernError
    from modelkeep.govern.agreement.key_change import KeyChange
    from modelkeep.govern.folder import Folder
    from modelkeep.govern.key_changes import sign_change

    party, change = Folder(folder), KeyChange.read(file)
    if not as_json:
        typer.echo(f"{change}. Asked for by {change.asker}.")
        if change.new_key:
            typer.echo(f"new key of {change.party}:  {spoken(change.new_key)}")
    if not yes and not typer.confirm("Is that right?"):
        raise GovernError("Not signed; nothing was changed.")
    _hand_on(party, sign_change(party, change), file, as_json)


def _hand_on(folder: Folder, change: KeyChange, file: Path, as_json: bool) -> None:
    change.write(file)
    missing = change.missing(folder.key_history().names)
    if as_json:
        typer.echo(json.dumps({**_values(change), "file": str(file), "missing": missing}))
    elif missing:
        typer.echo(f"Hand {file} on; it is not signed yet by: {', '.join(missing)}. ('{missing[0]}' signs last.)")
    else:
        taken = f"All have signed, and '{folder.public().name}' has taken it in."
        typer.echo(f"{taken} So does each of the others with: modelkeep govern keys sign {file} --folder …")


def _values(change: KeyChange) -> dict[str, object]:
    keys = {"old_key": change.old_key, "new_key": change.new_key}
    about = {"number": change.number, "kind": change.kind, "party": change.party, "passes": change.passes}
    return {**about, **keys, "asker": change.asker, "reason": change.reason, "signed": sorted(change.consents)}
