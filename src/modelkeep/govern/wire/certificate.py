"""Certificates of TLS: each process makes a key for TLS of its own, and the party's signing key vouches for it.

That key is never kept: it lives as long as the process, and its certificate for some days, so there is nothing on disk
to steal or to renew. Who has it can speak on the wire in the party's name until then, but sign nothing.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from modelkeep.core.errors import WireError
from modelkeep.govern.identity import Identity

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, CertificateBuilder, Name

VALID = timedelta(days=7)
RENEWED = timedelta(days=1)
"""How long a certificate is valid, and after what time a process that listens makes itself another."""

_SKEW = timedelta(days=1)  # by which the other machine's clock may be behind
_ANCHORED = timedelta(days=3650)  # what a process itself trusts, as long as it runs


def present_certificate(context: ssl.SSLContext, identity: Identity) -> None:
    """Let the context speak as this party: with a new key, for which the party's signing key vouches."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

    key, secret = Ed25519PrivateKey.generate(), token_hex(32)
    certificate = issue_certificate(identity, key.public_key().public_bytes_raw().hex())
    written = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(secret.encode()))
    with TemporaryDirectory() as folder:  # Python's TLS reads keys from files only; this one is encrypted, and gone
        file = Path(folder) / "tls.pem"
        file.write_bytes(written + certificate.public_bytes(Encoding.PEM))
        context.load_cert_chain(file, password=secret)


def issue_certificate(identity: Identity, key: str, *, now: datetime | None = None) -> Certificate:
    """The party's certificate for a key of TLS (hexadecimal). It has no authority to issue others."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    uses = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
    now = now or datetime.now(UTC)
    certificate = (
        _begin(identity.name, identity.public_key, key, now, VALID)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(identity.name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    )
    return identity.signer.certify(certificate)


def trust_keys(context: ssl.SSLContext, keys: Mapping[str, str]) -> None:
    """Let the context accept certificates that one of these signing keys (by the parties' names) has issued.

    OpenSSL trusts certificates, not keys. So this process certifies each key itself, for its own eyes, with a key that
    is gone at once; a party's key needs no certificate that lives for years.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding

    own = Ed25519PrivateKey.generate()
    anchors = [
        _begin(key, "this process", key, datetime.now(UTC), _ANCHORED)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(own, None)
        for key in keys.values()
    ]
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # what is trusted need not have signed itself
    context.load_verify_locations(cadata=b"".join(each.public_bytes(Encoding.DER) for each in anchors))


def require_certificate(certificate: bytes, keys: Mapping[str, str], *, now: datetime | None = None) -> str:
    """The party whose signing key has issued the certificate (DER), for its own name, and valid now.

    TLS has seen that the other side has the certified key, and that one of the keys has issued the certificate; but
    not that a party's key vouches for no other name than its own.
    """
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        found = x509.load_der_x509_certificate(certificate)
        names = [str(each.value) for each in found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        names += found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(
            x509.DNSName
        )
        issuer = _find_issuer(found, keys)
    except Exception as error:  # a dozen kinds, for all that a foreign certificate may hold
        raise WireError(f"The certificate cannot be read: {error}.") from error
    if issuer is None:
        raise WireError("The certificate is not issued by the key of a member.")
    if names != [issuer, issuer]:
        told = ", ".join(map(repr, names))
        raise WireError(f"The certificate is issued by the key of '{issuer}' for another name: {told}.")
    if not found.not_valid_before_utc <= (now or datetime.now(UTC)) <= found.not_valid_after_utc:
        raise WireError(f"The certificate of '{issuer}' is not valid now. Are both clocks right?")
    return issuer


def _find_issuer(certificate: Certificate, keys: Mapping[str, str]) -> str | None:
    from modelkeep.core.signing import is_signed

    signed, signature = certificate.tbs_certificate_bytes, certificate.signature.hex()
    return next((name for name, key in keys.items() if is_signed(signed, signature, key)), None)


def _begin(subject: str, issuer: str, key: str, now: datetime, valid: timedelta) -> CertificateBuilder:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)))
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + valid)
    )


def _name(text: str) -> Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
