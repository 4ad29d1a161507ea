"""Passphrase: the secret that opens a key, and where it comes from: the environment, a file, or a person."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import dataclass, field
from getpass import getpass
from pathlib import Path

from modelkeep.core.errors import InputError

VARIABLE = "MODELKEEP_PASSPHRASE"
FILE_VARIABLE = "MODELKEEP_PASSPHRASE_FILE"
NEW = "MODELKEEP_NEW_PASSPHRASE"
"""Where a passphrase is looked for before a person is asked; `NEW` is one that takes the place of another."""

SECRETS = (VARIABLE, NEW)
"""The variables whose values are secret: no program that is started gets them."""

_SHORTEST = 8  # characters; NIST SP 800-63B asks for no fewer


@dataclass(frozen=True)
class Passphrase:
    """A passphrase, which is never shown.

    >>> Passphrase("correct horse")
    Passphrase()
    """

    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) < _SHORTEST:
            raise InputError(f"A passphrase has {_SHORTEST} characters or more. This one is shorter.")

    @property
    def bytes(self) -> bytes:
        """As a key is encrypted with it."""
        return self.secret.encode()


def find_passphrase(what: str) -> Passphrase:
    """The passphrase that opens `what`: from the environment, from a file that it names, or asked at the terminal."""
    found = _from_environment(VARIABLE, FILE_VARIABLE)
    if found is not None:
        return found
    if not _is_at_terminal():
        raise InputError(
            f"{what} is encrypted, and there is no terminal to ask at. Set {VARIABLE}, or {FILE_VARIABLE} to a file "
            "that only you may read."
        )
    return Passphrase(_ask(f"Passphrase of {what}: "))


def choose_passphrase(what: str, *, replaces: bool = False) -> Passphrase | None:
    """A new passphrase for `what`, typed twice at a terminal; None where the environment has none, and no terminal is.

    `replaces` says that there is an old one, which the ordinary variable holds.
    """
    found = _from_environment(NEW, "") if replaces else _from_environment(VARIABLE, FILE_VARIABLE)
    if found is not None or not _is_at_terminal():
        return found
    first = Passphrase(_ask(f"New passphrase of {what}: "))
    if _ask("Once more: ") != first.secret:
        raise InputError("The two passphrases differ. Nothing was changed.")
    return first


def _from_environment(variable: str, file_variable: str) -> Passphrase | None:
    if secret := os.environ.get(variable):
        return Passphrase(secret)
    if not (named := os.environ.get(file_variable, "")):
        return None
    path = Path(named)
    try:
        if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise InputError(f"Others may read the passphrase in '{path}'. Say: chmod 600 '{path}'.")
        return Passphrase(path.read_text("utf-8").removesuffix("\n"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"The passphrase in '{path}' ({file_variable}) cannot be read as text.") from error


def _is_at_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _ask(prompt: str) -> str:
    try:
        return getpass(prompt)
    except EOFError as error:
        raise InputError("No passphrase was given.") from error
