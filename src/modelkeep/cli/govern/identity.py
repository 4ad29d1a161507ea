"""`modelkeep govern init`, `passphrase` and `sign`: who a party is, and what it puts its name under."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from modelkeep.core.passphrase import Passphrase
    from modelkeep.govern.agreement.agreement import Agreement
    from modelkeep.govern.folder import Folder

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]
NoPassphrase = Annotated[bool, typer.Option("--no-passphrase", help="Leave the key open to all who can read the disk.")]
AgreementFile = Annotated[Path, typer.Argument(help="The file with the agreement.")]


def init(
    name: Annotated[str, typer.Argument(help="The party's name: a-z, 0-9 and '-'.")],
    *,
    folder: Annotated[Path | None, typer.Option(help="Where the party keeps its things; its name by default.")] = None,
    no_passphrase: NoPassphrase = False,
    as_json: Json = False,
) -> None:
    """Make a party's identity: a key that never leaves its folder, and a file to hand to the others.

    Each party does this once, on its own machine. Done again, it only says the same again. The key is encrypted with a
    passphrase, which is asked for at the terminal. Without one, MODELKEEP_PASSPHRASE has it, or the file that
    MODELKEEP_PASSPHRASE_FILE names; the same holds for every command that signs.
    """
    from modelkeep.govern.identity import Identity, is_identity

    place = folder if folder is not None else Path(name)
    made = Identity.at(place, name, None if is_identity(place) else choose(f"the key of '{name}'", no_passphrase))
    handed = made.hand_over()
    if as_json:
        told = {"party": name, "folder": str(place), "hand_over": str(handed), "public_key": made.public_key}
        typer.echo(json.dumps({**told, "fingerprint": spoken(made.public_key)}))
        return
    typer.echo(f"'{name}' lives in {place}; the key there, {made.key_file.name}, is never handed to anybody.")
    typer.echo(f"Hand {handed} to the other parties, and compare the key's fingerprint with them by phone:")
    typer.echo(f"  {spoken(made.public_key)}")


def passphrase(
    folder: Annotated[Path, typer.Argument(help="The party's folder.")],
    *,
    no_passphrase: NoPassphrase = False,
) -> None:
    """Change the passphrase of a party's key, or give it one. The key itself stays the same.

    The old one is looked for as by every command; the new one is asked for at the terminal, or MODELKEEP_NEW_PASSPHRASE
    has it. A party that serves meanwhile goes on.
    """
    from modelkeep.core.key_file import is_encrypted, replace_passphrase
    from modelkeep.govern.folder import Folder

    identity = Folder(folder).identity()
    new = choose(f"the key of '{identity.name}'", no_passphrase, replaces=is_encrypted(identity.key_file))
    replace_passphrase(identity.key_file, new)
    typer.echo(
        f"The key of '{identity.name}' {'has no passphrase any more' if new is None else 'has a new passphrase'}."
    )


def choose(what: str, none: bool, *, replaces: bool = False) -> Passphrase | None:
    """A new passphrase; none only where that was asked for."""
    from modelkeep.core.errors import InputError
    from modelkeep.core.passphrase import NEW, VARIABLE, choose_passphrase

    chosen = None if none else choose_passphrase(what, replaces=replaces)
    if chosen is None and not none:
        raise InputError(
            f"There is no terminal to ask for the passphrase of {what}. Set {NEW if replaces else VARIABLE}, or say "
            "--no-passphrase: then all who can read the disk can sign with it."
        )
    return chosen


def sign(
    file: AgreementFile,
    *,
    folder: Annotated[Path, typer.Option(help="The folder of the party that signs.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do so without being asked.")] = False,
    as_json: Json = False,
) -> None:
    """Read an agreement, sign it, and put it into the party's folder. When all have signed, the party can start.

    The file goes from party to party until all have signed; then each says this once more, to have the whole of it.
    """
    from modelkeep.core.errors import GovernError
    from modelkeep.govern.agreement.agreement import Agreement
    from modelkeep.govern.folder import Folder

    party = Folder(folder)
    identity = party.identity()
    agreement = Agreement.read(file)
    agreement.require_member(identity)
    _require_same(agreement, party)
    if not as_json:
        show(agreement)
    if identity.name not in agreement.signatures:
        if not yes and not typer.confirm(f"Sign as '{identity.name}'?"):
            raise GovernError("Not signed; nothing was changed.")
        agreement = agreement.sign(identity)
    missing = [member.name for member in agreement.parties if member.name not in agreement.signatures]
    if not missing:
        agreement.check_signed()
    with party.agreement_lock():
        if party.agreement.exists() and (kept := Agreement.read(party.agreement)).fingerprint == agreement.fingerprint:
            agreement = agreement.merge_signatures(kept)
        agreement.write(file)
        agreement.write(party.agreement)
    missing = [member.name for member in agreement.parties if member.name not in agreement.signatures]
    if as_json:
        told = {"agreement": agreement.fingerprint, "party": identity.name, "missing": missing}
        typer.echo(json.dumps(told))
    elif missing:
        typer.echo(f"'{identity.name}' has signed {file}. Hand it on; it is not signed yet by: {', '.join(missing)}.")
    else:
        typer.echo(f"All have signed; {party.agreement} is complete. Hand {file} to those who do not have all of it.")


def _require_same(agreement: Agreement, party: Folder) -> None:
    """Refuse to put another agreement under a history that exists."""
    from modelkeep.core.errors import GovernError
    from modelkeep.govern.agreement.agreement import Agreement

    if party.ledger.exists() and Agreement.read(party.agreement).fingerprint != agreement.fingerprint:
        raise GovernError(
            f"The passes in '{party.ledger}' are under another agreement. For a new agreement make a new folder."
        )


def show(agreement: Agreement, as_json: bool = False) -> None:
    """What a person reads before signing, with the keys to compare."""
    if as_json:
        keys = {member.name: spoken(member.public_key) for member in agreement.parties}
        told = {"name": agreement.name, "agreement": agreement.fingerprint, "keys": keys}
        typer.echo(json.dumps({**told, "summary": dict(agreement.summary())}))
        return
    from rich.console import Console

    Console(highlight=False).print(agreement)
    for member in agreement.parties:
        typer.echo(f"key of {member.name}:  {spoken(member.public_key)}")


def spoken(public_key: str) -> str:
    """A key's fingerprint as two people read it to each other: 128 bits in eight groups.

    >>> spoken("00" * 32)
    '6668 7aad f862 bd77 6c8f c18b 8e9f 8e20'
    """
    digits = sha256(bytes.fromhex(public_key)).hexdigest()
    return " ".join(digits[i : i + 4] for i in range(0, 32, 4))
