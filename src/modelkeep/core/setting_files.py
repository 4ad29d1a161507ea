"""Settings that a text cannot hold: a command line or a settings file names the file that has them.

A `Model` is given by the path of its file. A secret (`bytes`) is given as `NAME_file`, the path of a file that only its
owner can read: a secret must not stand in a shell's history or in a shared file.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Any, get_args

from modelkeep.core.errors import InputError
from modelkeep.core.method import Option
from modelkeep.core.model import Model

_SHORTEST_SECRET = 16  # bytes: 128 random bits cannot be guessed
_NEW_SECRET = 32  # random bytes of a secret that we make


def file_setting(option: Option) -> str | None:
    """The name under which the file of a setting is given; None for a setting that is not read from a file."""
    kinds = get_args(option.type) or (option.type,)
    if Model in kinds:
        return option.name
    return f"{option.name}_file" if bytes in kinds else None


def read_setting(option: Option, path: Path) -> Any:
    """The value that a file holds for this setting."""
    return read_secret(path) if bytes in (get_args(option.type) or (option.type,)) else Model.load(path)


def read_secret(path: Path) -> bytes:
    """The secret in a file that only its owner can read."""
    require_private(path, "The secret")
    content = path.read_bytes().strip()
    if len(content) < _SHORTEST_SECRET:
        raise InputError(
            f"The secret in {path} has {len(content)} bytes, and needs {_SHORTEST_SECRET} or more. "
            f"Make one with: (umask 077; openssl rand -hex 32 > {path})"
        )
    return content


def make_secret(path: Path) -> bool:
    """Write a new secret that only its owner can read; False where the file is there already, which is kept."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    except OSError as error:
        raise InputError(f"The secret cannot be written to {path}: {error.strerror}.") from error
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(_NEW_SECRET) + "\n")
    return True


def require_private(path: Path, what: str) -> None:
    """Refuse a file that is missing, or that others than its owner can read."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise InputError(f"{what} cannot be read from {path}: {error.strerror}.") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError(
            f"{what} in {path} can be read by others (mode {stat.S_IMODE(mode):04o}). Run: chmod 600 {path}"
        )
