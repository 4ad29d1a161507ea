"""Exchange: a key for the codes of a session, which no listener learns (X25519, HKDF-SHA256).

It keeps a listener from changing or replaying messages. It does not say who the server is: for that, use TLS or give
the client the model's fingerprint by another way.
"""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from modelkeep.core.errors import EncryptError


class Exchange:
    """One side of an exchange, used once.

    >>> one, other = Exchange(), Exchange()
    >>> one.agree(other.public, "session") == other.agree(one.public, "session")
    True
    """

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()

    @property
    def public(self) -> str:
        """What the other side gets, in hexadecimal."""
        return self._private.public_key().public_bytes_raw().hex()

    def agree(self, other: object, about: str) -> bytes:
        """The key of both sides, bound to what it is about."""
        try:
            if not isinstance(other, str):
                raise ValueError("no text")
            shared = self._private.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(other)))
        except ValueError as error:
            raise EncryptError("The other side's public key is not one of X25519 in hexadecimal.") from error
        return HKDF(SHA256(), 32, None, f"modelkeep encrypt {about}".encode()).derive(shared)
