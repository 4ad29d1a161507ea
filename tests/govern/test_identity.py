"""A party's identity: kept privately, handed over safely, and refused where name, key and proof do not fit."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

from modelkeep.core.errors import GovernError, InputError
from modelkeep.core.passphrase import Passphrase
from modelkeep.core.signing import is_signed
from modelkeep.govern.identity import Identity, PublicIdentity, read_public


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


def old_certificate(key: Ed25519PrivateKey, common: str) -> str:
    """As version 0.1 made it: the key certifies itself for ten years."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=3650))
    return made.sign(key, None).public_bytes(Encoding.PEM).decode()


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


def test_who_a_party_is_takes_no_passphrase_and_to_sign_takes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODELKEEP_PASSPHRASE", "correct horse")
    made = Identity.at(tmp_path, "alice", Passphrase("correct horse"))
    monkeypatch.delenv("MODELKEEP_PASSPHRASE")
    assert read_public(tmp_path) == made.public
    with pytest.raises(InputError, match="is encrypted, and there is no terminal to ask at"):
        Identity.read(tmp_path)
    assert "correct horse" not in repr(made) + str(vars(made)) + str(vars(made.signer))


def test_the_handed_file_holds_no_secret(alice: Identity) -> None:
    text = (alice.folder / "alice.party.json").read_text()
    assert set(json.loads(text)) == {"name", "public_key", "proof"}
    assert private_key(alice).private_bytes_raw().hex() not in text
    assert "PRIVATE" not in text


def test_a_folder_of_version_0_1_is_read_and_goes_on(alice: Identity, tmp_path: Path) -> None:
    key = private_key(alice)
    (tmp_path / "key.pem").write_bytes(alice.key_file.read_bytes())
    (tmp_path / "key.pem").chmod(0o600)
    (tmp_path / "certificate.pem").write_text(old_certificate(key, "alice"))
    handed = {"name": "alice", "public_key": alice.public_key, "certificate": old_certificate(key, "alice")}
    (tmp_path / "alice.party.json").write_text(json.dumps(handed))
    assert PublicIdentity.read(tmp_path / "alice.party.json").public_key == alice.public_key
    assert read_public(tmp_path) == alice.public
    assert Identity.at(tmp_path, "alice").public == alice.public
    assert PublicIdentity.read(tmp_path / "alice.party.json") == alice.public
    (tmp_path / "identity.json").unlink()
    (tmp_path / "certificate.pem").write_text("no certificate")
    with pytest.raises(GovernError, match="cannot be read as the certificate of a party"):
        Identity.read(tmp_path)


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


@pytest.mark.parametrize("missing", ["key.pem", "identity.json"])
def test_a_folder_without_key_or_name_holds_no_identity(tmp_path: Path, missing: str) -> None:
    Identity.at(tmp_path, "alice")
    (tmp_path / missing).unlink()
    with pytest.raises(GovernError, match=f"there is no '{missing}'"):
        Identity.read(tmp_path)


def test_a_swapped_key_is_found_out(bob: Identity, tmp_path: Path) -> None:
    made = Identity.at(tmp_path, "alice")
    made.key_file.write_bytes(bob.key_file.read_bytes())
    with pytest.raises(GovernError, match=r"does not fit .*is of another key"):
        Identity.at(tmp_path, "alice")


def test_an_old_handed_file_is_replaced(alice: Identity, tmp_path: Path) -> None:
    made = Identity.at(tmp_path, "alice")
    alice.public.write(tmp_path / "alice.party.json")
    Identity.at(tmp_path, "alice")
    assert PublicIdentity.read(tmp_path / "alice.party.json") == made.public


Forgery = Callable[[Identity, Identity], dict[str, Any]]
FORGERIES: dict[str, tuple[Forgery, str]] = {
    "proof of another key": (lambda alice, bob: {"proof": bob.public.proof}, "it has not signed the proof"),
    "key of another": (lambda alice, bob: {"public_key": bob.public_key}, "it has not signed the proof"),
    "key in capitals": (lambda alice, bob: {"public_key": alice.public_key.upper()}, "not 64 hexadecimal digits"),
    "another name": (lambda alice, bob: {"name": "eve"}, "Nothing proves that 'eve' has the key"),
    "a path as a name": (lambda alice, bob: {"name": "../alice"}, "The name of a party is"),
    "no proof": (lambda alice, bob: {"proof": ""}, "Nothing proves that 'alice' has the key"),
    "an unknown field": (lambda alice, bob: {"trusted": True}, "at trusted: Unexpected keyword argument"),
    "a number as a name": (lambda alice, bob: {"name": 7}, "at name: Input should be a valid string"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_identity_file_is_refused_by_name(
    alice: Identity, bob: Identity, tmp_path: Path, forgery: str
) -> None:
    forge, sentence = FORGERIES[forgery]
    values = json.loads((alice.folder / "alice.party.json").read_text())
    path = tmp_path / "alice.party.json"
    path.write_text(json.dumps({**values, **forge(alice, bob)}))
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
