"""`modelkeep govern keys` and `passphrase` as people use them: a file that goes round, and passphrases in no output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.running import Run
from govern.key_folders import Parties
from modelkeep.core import key_file
from modelkeep.core.key_file import is_encrypted
from modelkeep.govern.folder import Folder
from modelkeep.govern.identity import Identity, read_public

SECRET, OTHER = "correct horse", "battery staple"


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_file, "_COST", 16)


def test_a_key_has_a_passphrase_unless_that_is_not_wanted(
    modelkeep: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = modelkeep("govern", "init", "alice")
    assert refused.code != 0
    assert "Set MODELKEEP_PASSPHRASE, or say --no-passphrase" in refused.err
    monkeypatch.setenv("MODELKEEP_PASSPHRASE", SECRET)
    made = modelkeep("govern", "init", "alice")
    assert made.code == 0, made.err
    key = tmp_path / "alice" / "key.pem"
    assert is_encrypted(key)
    monkeypatch.setenv("MODELKEEP_NEW_PASSPHRASE", OTHER)
    changed = modelkeep("govern", "passphrase", "alice")
    assert changed.out.strip() == "The key of 'alice' has a new passphrase."
    wrong = modelkeep("govern", "passphrase", "alice")
    assert "This passphrase does not open the key" in wrong.err
    monkeypatch.setenv("MODELKEEP_PASSPHRASE", OTHER)
    assert Identity.read(tmp_path / "alice").public == read_public(tmp_path / "alice")
    assert modelkeep("govern", "passphrase", "alice", "--no-passphrase").code == 0
    assert not is_encrypted(key)
    told = "".join(run.out + run.err for run in (made, changed, wrong))
    assert SECRET not in told
    assert OTHER not in told


def sign(modelkeep: Run, *names: str) -> None:
    for name in names:
        ran = modelkeep("govern", "keys", "sign", "key-change.json", "--folder", name, "--yes")
        assert ran.code == 0, ran.err


def test_a_change_goes_from_party_to_party(modelkeep: Run, tmp_path: Path) -> None:
    parties = Parties.at(tmp_path, passes=1)
    parties.agreement.write(tmp_path / "agreement.json")
    before = Folder(tmp_path / "bob").public()
    asked = json.loads(modelkeep("govern", "keys", "rotate", "bob", "--no-passphrase", "--json").out)
    assert (asked["kind"], asked["passes"], asked["missing"]) == ("rotate", 1, ["alice", "carol"])
    assert modelkeep("govern", "keys", "sign", "key-change.json", "--folder", "carol").code != 0  # nobody said yes
    sign(modelkeep, "carol")
    signed = modelkeep("govern", "keys", "sign", "key-change.json", "--folder", "alice", "--yes")
    assert "All have signed, and 'alice' has taken it in." in signed.out, signed.err
    sign(modelkeep, "bob", "carol")
    shown = json.loads(modelkeep("govern", "keys", "show", "alice", "--json").out)
    assert shown == json.loads(modelkeep("govern", "keys", "show", "bob", "--json").out)
    assert Folder(tmp_path / "bob").public().public_key != before.public_key
    assert "from pass 1 on, 'bob' takes another key" in modelkeep("govern", "keys", "show", "bob").out

    # Bob has lost it at once, and the audit says who let another one in.
    assert modelkeep("govern", "init", "bob", "--folder", "bob/next", "--no-passphrase").code == 0
    new, why = ("--new", "bob/next/bob.party.json"), ("--reason", "the laptop was stolen")
    assert modelkeep("govern", "keys", "replace", "alice", "bob", *new, *why).code == 0
    sign(modelkeep, "carol", "alice", "bob", "carol")
    audited = modelkeep("govern", "audit", "agreement.json", "alice", "bob", "carol", "--json")
    assert audited.code == 0, audited.out
    changes = json.loads(audited.out)["key_changes"]
    assert [(each["kind"], each["consents"]) for each in changes] == [
        ("rotate", ["alice", "bob", "carol"]),
        ("replace", ["alice", "carol"]),
    ]
    assert modelkeep("govern", "keys", "revoke", "alice", "bob", *why).code == 0
    sign(modelkeep, "carol", "alice")
    assert "key of bob:  none" in modelkeep("govern", "keys", "show", "alice").out
    assert modelkeep("govern", "keys", "leave", "carol").code != 0  # nobody said yes
    assert modelkeep("govern", "keys", "leave", "carol", "--yes", "--reason", "sold").code == 0
    sign(modelkeep, "alice")
    assert "'carol' leaves (sold)" in modelkeep("govern", "keys", "show", "alice").out
