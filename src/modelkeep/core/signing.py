"""Signing: the owner's Ed25519 key, made at first use and readable by the owner alone, and what is signed with it."""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelkeep.core.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


def canonical(content: Any) -> bytes:
    """The one way to write JSON that is signed and hashed.

    >>> canonical({"b": 1.0, "a": "ε"})
    b'{"a":"\\xce\\xb5","b":1.0}'
    """
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def is_signed(content: bytes, signature: str, public_key: str) -> bool:
    """Whether the signature of the content is the public key's (both in hexadecimal)."""
    from cryptography.exceptions import InvalidSignature

    try:
        _public(public_key).verify(bytes.fromhex(signature), content)
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=256)
def _public(key: str) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))


def default_key() -> Path:
    """Where the key is kept by default: in the user's folder for settings (XDG)."""
    settings = os.environ.get("XDG_CONFIG_HOME")
    folder = Path(settings) if settings and Path(settings).is_absolute() else Path.home() / ".config"
    return folder / "modelkeep" / "signing-key.pem"


class Signer:
    """Signs with a private key that it does not show."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @property
    def public_key(self) -> str:
        """The public key, in hexadecimal."""
        return self._key.public_key().public_bytes_raw().hex()

    def sign(self, content: bytes) -> str:
        """The signature, in hexadecimal."""
        return self._key.sign(content).hex()

    @classmethod
    def at(cls, path: Path) -> Signer:
        """The signer whose key lies in the file `path` (PEM); it is made there, with mode 0600, if there is none."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            if not path.exists():
                _make(path)
            if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
                raise InputError(f"Others may read or change the key '{path}'. Say: chmod 600 '{path}'.")
            text = path.read_bytes()
        except OSError as error:
            raise InputError(f"The key '{path}' can be neither read nor made: {error.strerror}.") from error
        try:
            key = load_pem_private_key(text, password=None)
        except (ValueError, TypeError) as error:  # TypeError: it has a password
            raise InputError(f"'{path}' is not a private key in PEM without a password.") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise InputError(f"'{path}' is not an Ed25519 key. Leave the file away to have one made.")
        return cls(key)


def _make(path: Path) -> None:
    """Write a new key. Of two processes that do so at once the first one's counts; a killed one leaves no half key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    text = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    with suppress(FileNotFoundError):
        unfinished.unlink()
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(unfinished, path)
    finally:
        unfinished.unlink()
