"""A private key on disk: PKCS#8 in PEM, for its owner alone, and encrypted if there is a passphrase.

`cryptography` encrypts PKCS#8 with PBKDF2 and 2,048 rounds, less than a millisecond for each guess. So the envelope is
made here with scrypt (RFC 7914, section 7); `cryptography` and `openssl pkey` read it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from base64 import b64encode
from contextlib import suppress
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from modelkeep.core.errors import InputError
from modelkeep.core.passphrase import Passphrase, find_passphrase

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

# What OWASP's cheat sheet on storing passwords asks for within the 32 MB that OpenSSL grants: a third of a second.
_COST, _BLOCK, _PARALLEL = 2**14, 8, 5
_ENCRYPTED = b"-----BEGIN ENCRYPTED PRIVATE KEY-----"
_PBES2, _SCRYPT, _AES256 = (
    bytes.fromhex(text) for text in ("2a864886f70d01050d", "2b06010401da47040b", "60864801650304012a")
)
_SEQUENCE, _INTEGER, _OCTETS, _OBJECT = 0x30, 0x02, 0x04, 0x06


def read_key(path: Path) -> Ed25519PrivateKey:
    """The key in the file. Where it is encrypted, the passphrase is looked for, or asked for."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    text = _read_private(path)
    passphrase = find_passphrase(f"the key '{path}'") if is_encrypted(path) else None
    try:
        key = load_pem_private_key(text, None if passphrase is None else passphrase.bytes)
    except (ValueError, TypeError) as error:  # TypeError: encrypted in another way, so that no passphrase was given
        if passphrase is not None:
            raise InputError(f"This passphrase does not open the key '{path}', or the file is damaged.") from None
        raise InputError(f"'{path}' is not a private key in PEM, or it is damaged.") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"'{path}' is not an Ed25519 key. Leave the file away to have one made.")
    return key


def is_encrypted(path: Path) -> bool:
    """Whether it takes a passphrase to read the key."""
    return _read_private(path).startswith(_ENCRYPTED)


def make_key(path: Path, passphrase: Passphrase | None) -> None:
    """Write a new key where there is none. Of two processes that do so at once the first one's counts."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write(path, _pem(Ed25519PrivateKey.generate(), passphrase), replace=False)


def replace_passphrase(path: Path, passphrase: Passphrase | None) -> None:
    """Encrypt the key with another passphrase (None: with none). A process that is killed leaves the old or the new."""
    _write(path, _pem(read_key(path), passphrase), replace=True)


def _read_private(path: Path) -> bytes:
    try:
        if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise InputError(f"Others may read or change the key '{path}'. Say: chmod 600 '{path}'.")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"The key '{path}' cannot be read: {error.strerror}.") from error


def _write(path: Path, text: bytes, *, replace: bool) -> None:
    """Write through a file that only the owner may read from its first moment on; the key is there whole or not."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    with suppress(FileNotFoundError):
        unfinished.unlink()
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(unfinished, path)
        else:
            with suppress(FileExistsError):
                os.link(unfinished, path)
    finally:
        with suppress(FileNotFoundError):
            unfinished.unlink()


def _pem(key: Ed25519PrivateKey, passphrase: Passphrase | None) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    if passphrase is None:
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    sealed = _seal(key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()), passphrase)
    lines = [_ENCRYPTED.decode(), *wrap(b64encode(sealed).decode(), 64), _ENCRYPTED.decode().replace("BEGIN", "END")]
    return ("\n".join(lines) + "\n").encode()


def _seal(content: bytes, passphrase: Passphrase) -> bytes:
    """EncryptedPrivateKeyInfo (RFC 5958) with PBES2: scrypt makes the key, AES-256 in CBC mode encrypts."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.padding import PKCS7

    salt, vector = os.urandom(16), os.urandom(16)
    key = hashlib.scrypt(passphrase.bytes, salt=salt, n=_COST, r=_BLOCK, p=_PARALLEL, dklen=32)
    padder = PKCS7(128).padder()
    padded = padder.update(content) + padder.finalize()
    encryptor = Cipher(algorithms.AES(key), modes.CBC(vector)).encryptor()
    costs = b"".join(_der(_INTEGER, each.to_bytes(each.bit_length() // 8 + 1)) for each in (_COST, _BLOCK, _PARALLEL))
    derivation = _der(_SEQUENCE, _der(_OBJECT, _SCRYPT) + _der(_SEQUENCE, _der(_OCTETS, salt) + costs))
    cipher = _der(_SEQUENCE, _der(_OBJECT, _AES256) + _der(_OCTETS, vector))
    scheme = _der(_SEQUENCE, _der(_OBJECT, _PBES2) + _der(_SEQUENCE, derivation + cipher))
    return _der(_SEQUENCE, scheme + _der(_OCTETS, encryptor.update(padded) + encryptor.finalize()))


def _der(tag: int, content: bytes) -> bytes:
    """One element in DER, of less than 256 bytes."""
    length = bytes([len(content)]) if len(content) < 128 else bytes([0x81, len(content)])
    return bytes([tag]) + length + content
