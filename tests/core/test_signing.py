"""The key is made once, stays with its owner, and signs what only its public half confirms."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from modelkeep.core.errors import InputError
from modelkeep.core.signing import Signer, canonical, default_key, is_signed


def test_a_signature_holds_for_this_content_and_this_key(tmp_path: Path) -> None:
    signer, other = Signer.at(tmp_path / "key.pem"), Signer.at(tmp_path / "other.pem")
    content = canonical({"b": 1, "a": [0.5, None]})
    assert content == canonical({"a": [0.5, None], "b": 1})
    signature = signer.sign(content)
    assert is_signed(content, signature, signer.public_key)
    assert not is_signed(content + b" ", signature, signer.public_key)
    assert not is_signed(content, signature, other.public_key)
    assert not is_signed(content, "no signature", signer.public_key)
    assert is_signed(content, signature, signer.public_key)  # what was found about another one does not count for it


def test_the_key_is_made_once_and_for_the_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "settings" / "key.pem"
    signer = Signer.at(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert Signer.at(path).public_key == signer.public_key
    assert path.read_text().startswith("-----BEGIN PRIVATE KEY-----")
    assert os.listdir(path.parent) == ["key.pem"]
    secret = path.read_text().splitlines()[1]
    assert secret not in repr(signer) + str(vars(signer))


def test_where_the_key_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert default_key() == tmp_path / "modelkeep" / "signing-key.pem"
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")  # the specification: to be ignored
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_key() == tmp_path / ".config" / "modelkeep" / "signing-key.pem"


def test_two_who_come_first_at_once_get_one_key(tmp_path: Path) -> None:
    program = "import sys; from pathlib import Path; from modelkeep.core.signing import Signer; "
    program += "sys.stdin.read(); print(Signer.at(Path(sys.argv[1])).public_key)"
    command = [sys.executable, "-c", program, str(tmp_path / "key.pem")]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said: list[str] = []
    waiting = [threading.Thread(target=lambda p=p: said.append(p.communicate("", timeout=60)[0])) for p in started]
    for thread in waiting:
        thread.start()
    for thread in waiting:
        thread.join()
    assert len(said) == 2
    assert len(set(said)) == 1
    assert said[0].strip() == Signer.at(tmp_path / "key.pem").public_key


def test_keys_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    path = tmp_path / "key.pem"
    Signer.at(path)
    path.chmod(0o640)
    with pytest.raises(InputError, match="chmod 600"):
        Signer.at(path)
    path.chmod(0o600)
    path.write_text("not a key")
    with pytest.raises(InputError, match="not a private key in PEM"):
        Signer.at(path)
    other = X25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(other)
    with pytest.raises(InputError, match="not an Ed25519 key"):
        Signer.at(path)
    with pytest.raises(InputError, match="neither read nor made"):
        Signer.at(path / "below a file")
