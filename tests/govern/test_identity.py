"""A party's identity: kept privately, handed over safely, and refused where name, key and certificate do not fit."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from modelkeep.core.errors import GovernError, InputError
from modelkeep.core.signing import is_signed
from modelkeep.govern.identity import Identity, PublicIdentity


@pytest.fixture(scope="module")
def alice(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return Identity.at(tmp_path_factory.mktemp("identities") / "alice", "alice")


@pytest.fixture(scope="module")
def bob(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return Identity.at(tmp_path_factory.mktemp("identities") / "bob", "bob")


def private_key(of: Identity) -> Ed25519PrivateKey:
    key = load_pem_private_key(of.key_file.read_bytes(), password=None)
    assert isinstance(key, Ed25519PrivateKey)
    return key


def certificate(
    key: Ed25519PrivateKey, common: str, *others: str, issuer_key: Ed25519PrivateKey | None = None, ends: int = 1
) -> str:
    """A certificate made here, without the code under test."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=ends))
    )
    if others:
        builder = builder.add_extension(x509.SubjectAlternativeName(list(map(x509.DNSName, others))), critical=False)
    return builder.sign(issuer_key or key, None).public_bytes(Encoding.PEM).decode()


def test_an_identity_is_made_once_and_then_the_same(tmp_path: Path) -> None:
    made = Identity.at(tmp_path / "new" / "alice", "alice")
    again = Identity.at(tmp_path / "new" / "alice", "alice")
    assert (again.public, again.folder) == (made.public, made.folder)
    assert PublicIdentity.read(made.folder / "alice.party.json") == made.public
    assert is_signed(b"said", again.signer.sign(b"said"), made.public_key)


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_nobody_else_may_read_the_key(tmp_path: Path) -> None:
    made = Identity.at(tmp_path / "alice", "alice")
    assert made.key_file.stat().st_mode & 0o777 == 0o600
    assert made.folder.stat().st_mode & 0o777 == 0o700
    made.key_file.chmod(0o640)
    with pytest.raises(InputError, match="Others may read or change the key"):
        Identity.at(made.folder, "alice")


def test_the_handed_file_holds_no_secret(alice: Identity) -> None:
    text = (alice.folder / "alice.party.json").read_text()
    assert set(json.loads(text)) == {"name", "public_key", "certificate"}
    assert private_key(alice).private_bytes_raw().hex() not in text
    assert "PRIVATE" not in text


def test_the_certificate_is_of_that_key_and_name_for_ten_years_and_issues_no_others(alice: Identity) -> None:
    found = x509.load_pem_x509_certificate(alice.certificate.encode())
    key = found.public_key()
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert isinstance(key, Ed25519PublicKey)
    assert key.public_bytes_raw().hex() == alice.public_key
    assert found.subject.rfc4514_string() == "CN=alice"
    assert names.get_values_for_type(x509.DNSName) == ["alice"]
    assert timedelta(3649) < found.not_valid_after_utc - datetime.now(UTC) < timedelta(3651)
    assert not found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def context(own: Identity, other: PublicIdentity, purpose: int) -> ssl.SSLContext:
    made = ssl.SSLContext(purpose)
    made.check_hostname = False
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_cert_chain(own.certificate_file, own.key_file)
    made.load_verify_locations(cadata=other.certificate)
    return made


def handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends of a TLS connection in memory."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (client.wrap_bio(down, up), server.wrap_bio(up, down, server_side=True))
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends


def test_two_parties_speak_mutual_tls_with_their_pinned_certificates(alice: Identity, bob: Identity) -> None:
    client, server = (
        context(alice, bob.public, ssl.PROTOCOL_TLS_CLIENT),
        context(bob, alice.public, ssl.PROTOCOL_TLS_SERVER),
    )
    asking, serving = handshake(client, server)
    assert asking.version() == "TLSv1.3"
    assert ssl.DER_cert_to_PEM_cert(serving.getpeercert(binary_form=True) or b"") == alice.certificate
    assert ssl.DER_cert_to_PEM_cert(asking.getpeercert(binary_form=True) or b"") == bob.certificate


def test_tls_refuses_another_key_under_the_same_name(alice: Identity, bob: Identity, tmp_path: Path) -> None:
    eve = Identity.at(tmp_path / "eve", "alice")
    client, server = (
        context(eve, bob.public, ssl.PROTOCOL_TLS_CLIENT),
        context(bob, alice.public, ssl.PROTOCOL_TLS_SERVER),
    )
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(client, server)


@pytest.mark.parametrize(
    "name", ["", "Alice", "../alice", "a/b", "a b", "-alice", "alice\n", "a.b", "ä", "a" * 64, "alice\u202e"]
)
def test_a_name_that_could_mean_something_else_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="The name of a party is 1 to 63 of"):
        Identity.at(tmp_path / "folder", name)
    assert not (tmp_path / "folder").exists()


def test_a_folder_is_of_one_party(alice: Identity) -> None:
    with pytest.raises(GovernError, match="is the folder of 'alice', not of 'bob'"):
        Identity.at(alice.folder, "bob")


@pytest.mark.parametrize("missing", ["key.pem", "certificate.pem"])
def test_a_folder_without_key_or_certificate_holds_no_identity(tmp_path: Path, missing: str) -> None:
    Identity.at(tmp_path, "alice")
    (tmp_path / missing).unlink()
    with pytest.raises(GovernError, match=f"there is no '{missing}'"):
        Identity.read(tmp_path)


def test_a_swapped_key_is_found_out(alice: Identity, bob: Identity, tmp_path: Path) -> None:
    made = Identity.at(tmp_path, "alice")
    made.key_file.write_bytes(bob.key_file.read_bytes())
    with pytest.raises(GovernError, match=r"does not fit .*is of another key"):
        Identity.at(tmp_path, "alice")


def test_an_old_handed_file_is_replaced(alice: Identity, bob: Identity, tmp_path: Path) -> None:
    made = Identity.at(tmp_path, "alice")
    alice.public.write(tmp_path / "alice.party.json")
    Identity.at(tmp_path, "alice")
    assert PublicIdentity.read(tmp_path / "alice.party.json") == made.public


Forgery = Callable[[Identity, Identity, Ed25519PrivateKey], dict[str, Any]]
FORGERIES: dict[str, tuple[Forgery, str]] = {
    "certificate of another key": (
        lambda alice, bob, _: {"certificate": bob.certificate},
        "The certificate of 'alice' is of another key",
    ),
    "key of another": (
        lambda alice, bob, _: {"public_key": bob.public_key},
        "The certificate of 'alice' is of another key",
    ),
    "key in capitals": (
        lambda alice, bob, _: {"public_key": alice.public_key.upper()},
        "is of another key",
    ),
    "another name": (lambda alice, bob, _: {"name": "eve"}, "The certificate of 'eve' names another party: 'alice'"),
    "a path as a name": (lambda alice, bob, _: {"name": "../alice"}, "The name of a party is"),
    "certificate names another party": (
        lambda alice, bob, eve: {
            "public_key": eve.public_key().public_bytes_raw().hex(),
            "certificate": certificate(eve, "bob", "bob"),
        },
        "The certificate of 'alice' names another party: 'bob', 'bob'",
    ),
    "certificate names another party too": (
        lambda alice, bob, eve: {
            "public_key": eve.public_key().public_bytes_raw().hex(),
            "certificate": certificate(eve, "alice", "alice", "bob"),
        },
        "names another party: 'alice', 'alice', 'bob'",
    ),
    "certificate without alternative name": (
        lambda alice, bob, eve: {
            "public_key": eve.public_key().public_bytes_raw().hex(),
            "certificate": certificate(eve, "alice"),
        },
        "The certificate of 'alice' names",
    ),
    "certificate not signed by its own key": (
        lambda alice, bob, eve: {"certificate": certificate(private_key(alice), "alice", "alice", issuer_key=eve)},
        "The certificate is not signed by its own key",
    ),
    "two certificates": (
        lambda alice, bob, _: {"certificate": alice.certificate + bob.certificate},
        "more than one certificate",
    ),
    "a note before the certificate": (
        lambda alice, bob, _: {"certificate": "trust me\n" + alice.certificate},
        "more than one certificate",
    ),
    "no certificate": (lambda alice, bob, _: {"certificate": ""}, "This is not a certificate in PEM"),
    "an unknown field": (lambda alice, bob, _: {"trusted": True}, "at trusted: Unexpected keyword argument"),
    "a number as a name": (lambda alice, bob, _: {"name": 7}, "at name: Input should be a valid string"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_identity_file_is_refused_by_name(
    alice: Identity, bob: Identity, tmp_path: Path, forgery: str
) -> None:
    forge, sentence = FORGERIES[forgery]
    values = json.loads((alice.folder / "alice.party.json").read_text())
    path = tmp_path / "alice.party.json"
    path.write_text(json.dumps({**values, **forge(alice, bob, Ed25519PrivateKey.generate())}))
    with pytest.raises(GovernError) as refused:
        PublicIdentity.read(path)
    assert sentence in str(refused.value)
    assert str(path) in str(refused.value)


def test_a_damaged_identity_file_is_refused(alice: Identity, tmp_path: Path) -> None:
    text = (alice.folder / "alice.party.json").read_text()
    path = tmp_path / "alice.party.json"
    for damaged, sentence in (
        (text[:100], "Was it copied completely"),
        ("", "Was it copied completely"),
        ("[]", "is not a party's public identity"),
        (text.replace('"name"', '"name": "bob", "name"', 1), "a key stands twice among 'name', 'name'"),
        (text.replace('"alice"', "NaN", 1), "not JSON compliant"),
        ("[" * 100_000, "nested too deeply"),
        (" " * 5_000_000, "bytes long"),
    ):
        path.write_text(damaged)
        with pytest.raises(GovernError, match=sentence):
            PublicIdentity.read(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(GovernError, match="can't decode"):
        PublicIdentity.read(path)
    with pytest.raises(GovernError, match="No such file"):
        PublicIdentity.read(tmp_path / "nowhere.json")


@given(st.data())
def test_no_changed_letter_of_a_certificate_goes_through(alice: Identity, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(alice.certificate) - 1))
    letter = data.draw(st.characters(codec="ascii").filter(lambda c: c != alice.certificate[place]))
    with pytest.raises(InputError):
        PublicIdentity("alice", alice.public_key, alice.certificate[:place] + letter + alice.certificate[place + 1 :])
