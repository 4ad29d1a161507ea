"""A key on disk: other programs open it, wrong passphrases do not, and a killed process leaves a whole one."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from modelkeep.core import key_file
from modelkeep.core.errors import InputError
from modelkeep.core.key_file import is_encrypted, make_key, read_key, replace_passphrase
from modelkeep.core.passphrase import Passphrase

SECRET = "correct horse, battery"


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guesses cost less here, and so do the tests."""
    monkeypatch.setattr(key_file, "_COST", 16)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An encrypted key, and its passphrase in the environment."""
    monkeypatch.setenv("MODELKEEP_PASSPHRASE", SECRET)
    make_key(tmp_path / "key.pem", Passphrase(SECRET))
    return tmp_path / "key.pem"


def test_other_programs_open_it_with_the_passphrase_alone(path: Path) -> None:
    own = read_key(path).private_bytes_raw()
    other = load_pem_private_key(path.read_bytes(), SECRET.encode())
    assert isinstance(other, Ed25519PrivateKey)
    assert other.private_bytes_raw() == own
    command = ["openssl", "pkey", "-in", str(path), "-passin", f"pass:{SECRET}", "-outform", "DER"]
    assert subprocess.run(command, capture_output=True, check=True).stdout.endswith(own)
    described = subprocess.run(["openssl", "asn1parse", "-in", str(path)], capture_output=True, text=True, check=True)
    assert ":scrypt" in described.stdout or "1.3.6.1.4.1.11591.4.11" in described.stdout
    assert ":4000" in described.stdout  # N = 2**14
    assert ":aes-256-cbc" in described.stdout
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(path.parent) == ["key.pem"]
    assert own not in path.read_bytes()


@pytest.mark.usefixtures("cheap")
def test_two_files_of_one_key_and_passphrase_have_nothing_in_common(path: Path) -> None:
    before, key = path.read_text(), read_key(path).private_bytes_raw()
    replace_passphrase(path, Passphrase(SECRET))
    assert read_key(path).private_bytes_raw() == key
    assert not set(before.splitlines()[2:-1]) & set(path.read_text().splitlines()[2:-1])


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize("why", ["wrong", "truncated", "changed", "readable", "unset", "foreign"])
def test_what_does_not_open_it_is_said_in_a_sentence_without_the_secret(
    path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    text = path.read_bytes()
    sentence = "does not open the key"
    if why == "wrong":
        monkeypatch.setenv("MODELKEEP_PASSPHRASE", SECRET + "!")
    elif why == "truncated":
        path.write_bytes(text[:-100])
    elif why == "changed":
        path.write_bytes(text.replace(text[60:64], b"AAAA"))
    elif why == "readable":
        path.chmod(0o604)
        sentence = "Others may read or change the key"
    elif why == "unset":
        monkeypatch.delenv("MODELKEEP_PASSPHRASE")
        sentence = "is encrypted, and there is no terminal to ask at. Set MODELKEEP_PASSPHRASE"
    else:
        path.write_bytes(text.replace(b"ENCRYPTED PRIVATE", b"PUBLIC"))
        sentence = "is not a private key in PEM"
    with pytest.raises(InputError, match=sentence) as refused:
        read_key(path)
    assert SECRET not in repr(refused.value)
    assert str(path) in str(refused.value)


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
def test_a_process_that_is_killed_leaves_a_key_that_opens(path: Path, call: str) -> None:
    key = read_key(path).private_bytes_raw()
    child = os.fork()
    if child == 0:  # pragma: no cover: it ends here
        setattr(os, call, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        replace_passphrase(path, Passphrase("another one"))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert read_key(path).private_bytes_raw() == key
    replace_passphrase(path, None)
    assert not is_encrypted(path)
    assert read_key(path).private_bytes_raw() == key
