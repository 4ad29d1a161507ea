"""Signing: the owner's Ed25519 key, made at first use and readable by the owner alone, and what is signed with it."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelkeep.core.errors import InputError
from modelkeep.core.key_file import make_key, read_key
from modelkeep.core.passphrase import Passphrase

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.x509 import Certificate, CertificateBuilder


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def canonical(content: Any) -> bytes:
    """The one way to write JSON that is signed and hashed.

    >>> canonical({"b": 1.0, "a": "ε"})
    b'{"a":"\\xce\\xb5","b":1.0}'
    """
    return _encode(content).encode()


def is_signed(content: bytes, signature: str, public_key: str) -> bool:
    """Whether the signature of the content is the public key's (both in hexadecimal).

    The last ones are remembered: what was checked as soon as it came costs nothing when it is needed.
    """
    return _verify(content, signature, public_key)


@lru_cache(maxsize=256)
def _verify(content: bytes, signature: str, public_key: str) -> bool:
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

    def certify(self, certificate: CertificateBuilder) -> Certificate:
        """Sign a certificate (X.509)."""
        return certificate.sign(self._key, None)

    @classmethod
    def at(cls, path: Path, passphrase: Passphrase | None = None) -> Signer:
        """The signer whose key lies in the file `path` (PEM); it is made there, with mode 0600, if there is none.

        A new key is encrypted with the passphrase, if there is one. To read an encrypted key the passphrase is looked
        for in the environment, or asked for at the terminal (`modelkeep.core.passphrase`).
        """
        try:
            if not path.exists():
                make_key(path, passphrase)
        except OSError as error:
            raise InputError(f"The key '{path}' can be neither read nor made: {error.strerror}.") from error
        return cls(read_key(path))
