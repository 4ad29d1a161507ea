"""modelkeep guard: settings, keys and refusals, as a person and a script see them; test_serve.py has it running."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from cli.running import Run
from modelkeep.cli.guard.gateway import _give_secret
from modelkeep.guard.gateway.assembly import Plan
from modelkeep.guard.gateway.principals import hash_key
from modelkeep.guard.store.sqlite import SqliteStore


@pytest.fixture
def settings(tmp_path: Path, digits_model: Path) -> Path:
    path = tmp_path / "guard.toml"
    path.write_text(f'[model]\nname = "digits"\npath = "{digits_model}"\n[store]\nurl = "sqlite:///s.sqlite3"\n')
    return path


def test_init_writes_settings_that_check_reads(modelkeep: Run, digits_model: Path, tmp_path: Path) -> None:
    assert modelkeep("guard", "init").code == 0
    path = tmp_path / "guard.toml"
    path.write_text(path.read_text().replace("model.safetensors", str(digits_model)))
    ran = modelkeep("guard", "check", "guard.toml")
    assert ran.code == 0, ran.err
    assert "takes    input: FP32 1×8×8" in ran.out
    assert "gives    probabilities: 10 classes, guarded by modelguard-s" in ran.out
    assert "gRPC     127.0.0.1:8001" in ran.out
    assert not list(tmp_path.glob("*.sqlite3"))  # to check opens nothing
    assert (tmp_path / "guard.secret").stat().st_mode & 0o077 == 0
    assert "Warning" not in ran.out
    path.write_text(path.read_text().replace("secret_file", "# secret_file"))
    assert "Warning: There is no secret" in modelkeep("guard", "check", "guard.toml").out
    again = modelkeep("guard", "init")
    assert (again.code, "not overwritten" in again.err) == (4, True)


def test_check_shows_the_epoch_and_what_changes_it(modelkeep: Run, settings: Path) -> None:
    def epoch() -> str:
        told: str = json.loads(modelkeep("guard", "check", settings, "--json").out)["epoch"]
        return told

    first = epoch()
    assert len(bytes.fromhex(first)) == 32
    assert epoch() == first
    original = settings.read_text()
    settings.write_text(f"{original}[server]\nport = 9000\n")
    assert epoch() == first
    for change in ("epsilon = 0.5", "noise = 1e-4"):
        settings.write_text(f'{original}[defence]\nname = "modelguard-s"\n{change}\n')
        assert epoch() != first


def test_check_names_every_error(modelkeep: Run, settings: Path) -> None:
    settings.write_text('[model]\nname = "digits"\n[server]\nprot = 1\n[defence]\nname = "modelgard-s"\n')
    ran = modelkeep("guard", "check", settings)
    assert ran.code in (2, 4)
    assert "has 3 errors:" in ran.err
    assert "Did you mean 'port'?" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("serve", "none.toml"), "No such file"),
        (("serve", "none.safetensors"), "none.safetensors"),
        (("serve", "m.safetensors", "--defence", "best"), "There is no guard 'best'. "),
        (("serve", "m.safetensors", "--epsilon", "3"), "defence.epsilon must be less than or equal to 2. Got 3.0."),
        (("serve", "m.safetensors", "--port", "0"), "server.port must be"),
        (("serve", "m.safetensors", "--store", "here"), "store.url: must be sqlite:///FILE"),
        (("keys", "add", "alice", "--store", "redis://x"), "store.url: must be sqlite:///FILE"),
        (("keys", "add", "anonymous"), "a name of the gateway's own"),
        (("keys", "rotate", "bob"), "There is no principal 'bob' here. Known: none."),
        (("keys", "revoke", "bob"), "There is no principal 'bob' here."),
    ],
    ids=lambda value: "-".join(value).replace("/", "") if isinstance(value, tuple) else "",
)
def test_what_cannot_be_done_is_a_sentence(modelkeep: Run, arguments: tuple[str, ...], sentence: str) -> None:
    ran = modelkeep("guard", *arguments)
    assert ran.code in (2, 4)
    assert sentence in ran.err
    assert "Traceback" not in ran.err


def test_the_options_are_those_of_the_guard(modelkeep: Run) -> None:
    told = modelkeep("guard", "serve", "--defence", "mad", "--help").out
    assert all(option in told for option in ("--surrogate", "--epsilon", "--exact"))
    assert "--decimals" not in told
    assert (
        "There is no option --epsilon." in modelkeep("guard", "serve", "m", "--defence", "none", "--epsilon", "1").err
    )
    needs = modelkeep("guard", "serve", "m", "--defence", "mad").err
    assert "defence.surrogate is missing: The thief's network" in needs
    listed = modelkeep("guard", "serve", "--list").out
    assert all(name in listed for name in ("adaptive-misinformation", "top-1", "Tang2024"))


def test_a_key_is_shown_once_and_only_its_hash_is_kept(modelkeep: Run, tmp_path: Path) -> None:
    ran = modelkeep("guard", "keys", "add", "alice", "--queries", "100", "--rate", "2.5")
    key = ran.out.strip()
    assert key.startswith("mk_")
    store = SqliteStore(tmp_path / "modelkeep-guard.sqlite3")
    known = store.principal(hash_key(key))
    assert known is not None
    assert (known.name, known.queries, known.rate) == ("alice", 100, 2.5)
    told = modelkeep("guard", "keys", "list", "--json").out
    assert json.loads(told) == [{"name": "alice", "queries": 100, "rate": 2.5, "spent": 0, "revoked": False}]
    written = told + json.dumps([event.detail for event in store.events()])
    assert key not in written
    assert hash_key(key).hex() not in written
    twice = modelkeep("guard", "keys", "add", "alice")
    assert (twice.code, "keys rotate alice" in twice.err) == (4, True)
    store.close()


def test_rotation_keeps_both_keys_until_the_old_ones_are_revoked(
    modelkeep: Run, settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def valid(key: str) -> bool:
        found = store.principal(hash_key(key))
        return found is not None and not found.revoked

    old = json.loads(modelkeep("guard", "keys", "add", "alice", "--queries", "5", "--json").out)["key"]
    store = SqliteStore(tmp_path / "s.sqlite3")  # ./guard.toml is found
    new = json.loads(modelkeep("guard", "keys", "rotate", "alice", "--rate", "3", "--json").out)["key"]
    assert valid(old)
    assert valid(new)
    (alice,) = store.principals()
    assert (alice.queries, alice.rate) == (5, 3.0)

    monkeypatch.setattr("sys.stdin", io.StringIO("mk_mistyped\n"))
    mistyped = modelkeep("guard", "keys", "revoke", "alice", "--keep")
    assert (mistyped.code, "nothing was revoked" in mistyped.err) == (4, True)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{new}\n"))
    assert "revoked 1 of the keys" in modelkeep("guard", "keys", "revoke", "alice", "--keep").out
    assert not valid(old)
    assert valid(new)

    newest = modelkeep("guard", "keys", "rotate", "alice", "--now").out.strip()
    assert not valid(new)
    assert valid(newest)
    assert "revoked 1" in modelkeep("guard", "keys", "revoke", "alice").out
    assert not valid(newest)
    assert "revoked" in modelkeep("guard", "keys", "list").out
    again = modelkeep("guard", "keys", "add", "alice").out.strip()  # who was revoked may come back
    assert valid(again)
    assert [event.action for event in reversed(store.events())] == [
        "key added",
        "key rotated",
        "keys revoked",
        "key rotated at once",
        "keys revoked",
        "key added",
    ]
    store.close()


def test_the_demo_shows_the_drop_from_end_to_end(modelkeep: Run, tmp_path: Path) -> None:
    ran = modelkeep("guard", "demo", "--queries", "200", "--json")
    assert ran.code == 0, ran.err
    clean, *guarded = (fidelity for fidelity, _ in json.loads(ran.out)["fidelity and accuracy"].values())
    assert len(guarded) == 3
    assert clean > max(guarded) + 0.03
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["", "serve", "check", "init", "keys", "keys add", "keys rotate"], ids=str)
def test_help_teaches(modelkeep: Run, command: str) -> None:
    ran = modelkeep("guard", *command.split(), "--help")
    assert ran.code == 0
    assert "modelkeep guard" in ran.out


def test_what_describes_a_model_is_said_to_serve_as_to_every_verb(
    modelkeep: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A factory that says nothing about itself, with all that is missing as options."""
    (tmp_path / "mine_to_serve.py").write_text(
        "from torch import nn\n\ndef network(width):\n    return nn.Sequential(nn.Flatten(), nn.Linear(12, width))\n"
    )
    served: list[Plan] = []
    monkeypatch.setattr("modelkeep.guard.gateway.process.serve", lambda plan, ready: served.append(plan))
    said = (
        "--classes",
        "cat,dog",
        "--input-shape",
        "2,2,3",
        "--layout",
        "channels-last",
        "--arguments",
        '{"width": 2}',
    )
    ran = modelkeep(
        *("guard", "serve", "mine_to_serve:network", *said, "--mean", "0.5,0.4,0.3", "--std", "0.1,0.2,0.3"),
        *("--bounds", "0,1"),
    )
    assert ran.code == 0, ran.err
    model = served[0].model
    assert model is not None
    assert model.classes == ("cat", "dog")
    assert model.input_shape == (3, 2, 2)
    assert model.card.preprocessing.mean == (0.5, 0.4, 0.3)
    assert model.bounds == (0, 1)
    refused = modelkeep("guard", "serve", "mine_to_serve:network", *said, "--mean", "0.5,0.4,0.3")
    assert refused.code == 2
    assert "--mean and --std belong together" in " ".join(refused.err.split())


def test_a_model_that_is_served_without_settings_gets_a_secret_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'state.sqlite3'}"
    first: dict[str, dict[str, object]] = {"model": {}, "store": {"url": url}}
    again: dict[str, dict[str, object]] = {"model": {}, "store": {"url": url}}
    _give_secret(first)
    _give_secret(again)
    assert capsys.readouterr().err.count("Made a secret") == 1
    assert first["defence"] == again["defence"] == {"name": "modelguard-s", "secret_file": tmp_path / "state.secret"}
    other: dict[str, dict[str, object]] = {"defence": {"name": "modelguard-w"}}
    _give_secret(other)
    assert other == {"defence": {"name": "modelguard-w"}}
