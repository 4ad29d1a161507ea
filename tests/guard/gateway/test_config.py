"""Settings: every error is a sentence that names the key, all of them come at once, and no secret is ever shown."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from modelkeep.core.errors import GuardError
from modelkeep.core.setting_files import make_secret, read_secret
from modelkeep.guard.defences.modelguard_s import ModelGuardS
from modelkeep.guard.gateway.config import open_configured_store, parse_config, read_config, read_toml
from modelkeep.guard.gateway.example import example_settings

MODEL = {"model": {"path": "m.safetensors"}}
UPSTREAM = {"upstream": "http://127.0.0.1:9000", "input_shape": [4], "classes": 3}


def refused(given: dict[str, Any]) -> str:
    with pytest.raises(GuardError) as error:
        parse_config(given, "guard.toml", Path())
    return str(error.value)


def test_the_example_is_right_and_names_every_setting(tmp_path: Path) -> None:
    example = example_settings("guard.toml", secret="guard.secret")
    assert "modelkeep guard check guard.toml" in example
    make_secret(tmp_path / "guard.secret")
    config = parse_config(tomllib.loads(example), "guard.toml", tmp_path)
    assert config.server.port == 8000
    assert config.defence.build(tmp_path) == ModelGuardS(1.0, secret=read_secret(tmp_path / "guard.secret"))
    for section in (config.server, config.model, config.store, config.principals, config.detection, config.dashboard):
        for name in type(section).model_fields:
            if name not in ("weights", "device", "dtype"):  # weights is in a comment; the others are for few
                assert f"{name} = " in example, name


def test_what_is_left_out_has_safe_values() -> None:
    config = parse_config(MODEL, "guard.toml", Path())
    assert config.server.host == "127.0.0.1"
    assert not config.principals.open
    assert config.defence.build(Path()) == ModelGuardS(1.0)
    assert config.server.grpc_port is None


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "model is missing."),
        ({"model": {}}, "model: give either path"),
        ({"model": {"path": "m", "upstream": "http://x"}}, "model: give either path"),
        ({"model": {"upstream": "http://x"}}, "input_shape and classes must be given"),
        ({"model": {**UPSTREAM, "upstream": "ftp://x"}}, "upstream must be an http"),
        ({"model": {"path": "m", "name": "a/b"}}, "model.name must match pattern"),
        ({"model": {"path": "m", "classes": [1]}}, "model.classes must be how many there are"),
        (
            {"model": {"path": "m", "input_shape": [0]}},
            "model.input_shape.0 must be greater than or equal to 1. Got 0.",
        ),
        ({"model": {"path": "m", "kind": "scores"}}, "model.kind must be 'probabilities' or 'logits'. Got 'scores'."),
        ({**MODEL, "server": {"port": 70000}}, "server.port must be less than or equal to 65535. Got 70000."),
        ({**MODEL, "server": {"port": "x"}}, "Got 'x'."),
        ({**MODEL, "server": {"port": 80, "grpc_port": 80}}, "port and grpc_port must differ"),
        ({**MODEL, "server": {"tls_key": "k"}}, "tls_certificate and tls_key belong together"),
        ({**MODEL, "server": {"prot": 1}}, "server.prot is not a setting. Did you mean 'port'?"),
        ({**MODEL, "sever": {}}, "sever is not a setting. Did you mean 'server'?"),
        ({**MODEL, "folder": "/"}, "folder is not a setting."),
        ({**MODEL, "_folder": "/"}, "_folder is not a setting."),
        ({**MODEL, "defence": {}}, "defence.name is missing. It must be one of mad, adaptive"),
        ({**MODEL, "defence": {"name": "best"}}, "top-1, unordered. Got 'best'."),
        ({**MODEL, "defence": {"name": 3}}, "Got 3."),
        (
            {**MODEL, "defence": {"name": "mad"}},
            "defence.surrogate is missing: The thief's network with random weights",
        ),
        ({**MODEL, "defence": {"name": "adaptive-misinformation", "threshold": 0.5}}, "Give the path of its file."),
        ({**MODEL, "defence": {"name": "none", "epsilon": 1}}, "defence.epsilon is not a setting."),
        ({**MODEL, "defence": {"name": "modelguard-w", "epsilon": 3}}, "defence.epsilon must be less than"),
        ({**MODEL, "defence": {"name": "reverse-sigmoid"}}, "defence.beta is missing: How strongly"),
        ({**MODEL, "defence": {"name": "top1", "noise": 0.5}}, "defence.noise must be less than 0.1. Got 0.5."),
        ({**MODEL, "store": {"url": "mysql://h/d"}}, "store.url: must be sqlite:///FILE or postgresql://"),
        ({**MODEL, "store": {"url": "sqlite://"}}, "store.url: must be sqlite:///FILE"),
        ({**MODEL, "principals": 3}, "principals must be a table: write [principals]"),
        ({**MODEL, "principals": {"open": "perhaps"}}, "principals.open must be a valid boolean"),
    ],
    ids=lambda value: value[:40].replace("'", "") if isinstance(value, str) else "",
)
def test_each_error_is_a_sentence_that_names_its_key(given: dict[str, Any], sentence: str) -> None:
    message = refused(given)
    assert message.startswith("guard.toml has an error:\n  ")
    assert sentence in message


def test_all_errors_come_at_once() -> None:
    message = refused(
        {"server": {"port": 0.5}, "defence": {"name": "modelguard-s", "epsilon": -1}, "store": {"url": "x"}, "y": 1}
    )
    assert message.startswith("guard.toml has 5 errors:")
    for key in ("server.port", "model is missing", "defence.epsilon", "store.url", "y is not a setting"):
        assert key in message


@pytest.mark.parametrize(
    "given",
    [
        {**MODEL, "defence": {"name": "modelguard-s", "secret": "hush-hush"}},
        {**MODEL, "store": {"url": "postgresql://guard:hush-hush@host/guard"}},
        {**MODEL, "store": {"url": "postgresql://guard:hush-hush@[host/guard"}},
        {**MODEL, "principals": {"keys": {"alice": "hush-hush"}}},
        {**MODEL, "server": {"tls_key": "k", "password": "hush-hush"}},
    ],
    ids=["secret", "password in an address", "broken address", "keys", "password"],
)
def test_a_secret_in_the_file_is_refused_and_not_shown(given: dict[str, Any]) -> None:
    assert "hush" not in refused(given)


def test_a_file_that_is_none_says_so(tmp_path: Path) -> None:
    with pytest.raises(GuardError, match=r"No such file.*modelkeep guard init"):
        read_config(tmp_path / "none.toml")
    broken = tmp_path / "guard.toml"
    broken.write_text("[server\n")
    with pytest.raises(GuardError, match="is not TOML"):
        read_config(broken)
    broken.write_bytes(b"\xff\xfe")
    with pytest.raises(GuardError, match="is not TOML"):
        read_toml(broken)


def test_paths_start_where_the_file_is(tmp_path: Path) -> None:
    (tmp_path / "guard.toml").write_text('[model]\npath = "m.safetensors"\n[store]\nurl = "sqlite:///s.sqlite3"\n')
    config = read_config(tmp_path / "guard.toml")
    assert config.at("m.safetensors") == tmp_path / "m.safetensors"
    open_configured_store(config).close()
    assert (tmp_path / "s.sqlite3").exists()
    elsewhere = parse_config({**MODEL, "store": {"url": f"sqlite:///{tmp_path}/t.sqlite3"}}, "x", Path("/nowhere"))
    open_configured_store(elsewhere).close()
    assert (tmp_path / "t.sqlite3").exists()
